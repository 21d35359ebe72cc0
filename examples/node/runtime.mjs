// The least that a runtime in another language must do, in Node 20 without dependencies: fetch the registry, refuse
// what it can't understand, ask people where the gate fires, use the approval once, report and log.
// docs/api/walkthrough.md explains each step.

import { randomUUID } from "node:crypto";

import { canonicalize, digest } from "./canonical.mjs";

const SCHEMA = "hookgate.registry/1";
// What this small runtime can run itself. A hook that it can't run is no hook that it may skip.
const KNOWN = new Set(["approval_gate", "readonly_guard", "audit_log"]);

/** The portal said no, or nothing that can be used. No tool runs after it. */
export class Blocked extends Error {}

export class Runtime {
  constructor(url, key, name) {
    this.url = url.replace(/\/$/, "");
    this.headers = { Authorization: `Bearer ${key}`, "Hookgate-Runtime": name, "Content-Type": "application/json" };
  }

  /** One request: its status, body and ETag. Throws Blocked for everything but 2xx and 304. */
  async call(method, path, { body, headers, seconds = 5 } = {}) {
    let response;
    try {
      response = await fetch(`${this.url}/api/v1/${path}`, {
        method,
        redirect: "error",
        headers: { ...this.headers, ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(seconds * 1000),
      });
      const text = await response.text();
      const read = text ? JSON.parse(text) : null;
      if (response.ok || response.status === 304) {
        const { headers } = response;
        return { status: response.status, body: read, etag: headers.get("etag"), attempt: headers.get("hookgate-attempt") };
      }
      throw new Blocked(`the portal refused ${path}: ${response.status} ${read?.code}: ${read?.detail}`);
    } catch (error) {
      if (error instanceof Blocked) throw error;
      throw new Blocked(`the portal is out of reach: ${error.message}`);
    }
  }

  /** The agent's registry, fetched anew unless `held` is still the newest. */
  async registry(agent, held) {
    const headers = held ? { "If-None-Match": held.etag } : {};
    const reply = await this.call("GET", `agents/${encodeURIComponent(agent)}/registry?surface=api`, { headers });
    if (reply.status === 304) return held;
    const manifest = reply.body;
    if (manifest.schema !== SCHEMA) throw new Blocked(`this runtime reads ${SCHEMA}, not ${manifest.schema}`);
    const foreign = manifest.hooks.find((hook) => !KNOWN.has(hook.name));
    if (foreign) throw new Blocked(`this runtime can't run the hook ${foreign.name}`);
    return { manifest, etag: reply.etag };
  }

  /** Run one tool call through the gate; resolves to what the model reads. */
  async callTool({ agent, conversation, id, tool, args, initiator, execute, held }) {
    const started = new Date();
    const entry = { id: randomUUID(), tool_name: tool, tool_call_id: id, conversation_id: conversation, user: initiator };
    let confirmation = null;
    try {
      canonicalize(args);
      const { manifest } = await this.registry(agent, held);
      entry.agent = manifest.agent.slug;
      const facts = judge(manifest, tool);
      if (facts.gated) {
        confirmation = await this.approve({ manifest, conversation, id, tool, args, initiator });
      }
      entry.status = "unknown";
      const result = await execute(structuredClone(args));
      entry.status = "succeeded";
      return String(result);
    } catch (error) {
      const blocked = error instanceof Blocked || error.path;
      entry.status = blocked ? "blocked" : "failed";
      entry[blocked ? "reason" : "error"] = error.message;
      return blocked ? `Tool call ${tool} was blocked: ${error.message}` : `Tool call ${tool} failed: ${error.message}`;
    } finally {
      await this.report(entry, confirmation, args, started);
    }
  }

  /** Ask people, wait, and use their approval for exactly these arguments. Throws Blocked. */
  async approve({ manifest, conversation, id, tool, args, initiator }) {
    let request = (
      await this.call("POST", "confirmations", {
        body: {
          agent: manifest.agent.slug, conversation_id: conversation, tool_call_id: id, tool_name: tool, tool_args: args,
          hook: "approval_gate", registry_digest: manifest.digest, initiator,
        },
      })
    ).body;
    while (request.status === "pending") {
      request = (await this.call("GET", `confirmations/${request.id}?wait=30`, { seconds: 40 })).body;
    }
    if (request.status !== "approved") throw new Blocked(`${request.status}${request.reason ? `: ${request.reason}` : ""}`);
    // Of what is about to run, and not of what the portal says it is.
    const body = { args_digest: digest(args), attempt: randomUUID() };
    const used = await this.call("POST", `confirmations/${request.id}/consume`, { body });
    // Anything but the use of this approval, by this attempt, runs nothing.
    const same = used.status === 200 && used.body?.id === request.id && used.body.status === "approved";
    if (!same || used.body.args_digest !== body.args_digest || !used.body.consumed_at || used.attempt !== body.attempt) {
      throw new Blocked("the portal's answer is not the use of this approval");
    }
    return request.id;
  }

  /** Tell the portal what came of it. A failure here changes nothing for the call. */
  async report(entry, confirmation, args, started) {
    try {
      if (confirmation) {
        const status = entry.status === "succeeded" ? "succeeded" : "failed";
        await this.call("POST", `confirmations/${confirmation}/outcome`, { body: { status, detail: entry.error ?? null } });
      }
      if (!entry.agent) return;
      const call = {
        ...entry, confirmation_id: confirmation, args_digest: digest(args),
        started_at: started.toISOString(), duration_ms: Date.now() - started.getTime(),
      };
      await this.call("POST", "calls", { body: { calls: [call] } });
    } catch (error) {
      console.error(`not reported: ${error.message}`);
    }
  }
}

/** What the registry says about a tool. Throws Blocked where it may not run at all. */
function judge(manifest, name) {
  const { state, tools } = manifest;
  if (state.halted) throw new Blocked(`halted: ${state.reason}`);
  const wildcard = name.includes("__") ? `${name.split("__", 1)[0]}__*` : null;
  const listed = tools.find((tool) => tool.name === name) ?? tools.find((tool) => tool.name === wildcard);
  if (!listed && manifest.unlisted_tools === "deny") throw new Blocked(`nobody lists ${name}`);
  if (state.read_only && (listed?.writes ?? true)) throw new Blocked("the organization is read-only and this tool writes");
  // A trigger's glob and CEL condition are more than this example evaluates: it asks people once too often, never too
  // seldom.
  const triggers = manifest.hooks.find((hook) => hook.name === "approval_gate").params.triggers ?? [];
  const may_trigger = triggers.some((trigger) => trigger.tool_filter || trigger.when);
  const unlisted = !listed && manifest.unlisted_tools === "confirm";
  return { gated: Boolean(listed?.requires_confirmation || manifest.require_confirmation_for_all || unlisted || may_trigger) };
}
