// Canonical JSON (RFC 8785) and digests of tool arguments, without dependencies.
// docs/api/digests.json has the vectors; the tests run them through this file.

import { createHash } from "node:crypto";

const MAX_DEPTH = 32;

/** Arguments that have no digest; `path` says where. */
export class NotCanonical extends Error {
  constructor(path, message) {
    super(`${path} ${message}`);
    this.path = path;
  }
}

/** The canonical text of a value. Throws NotCanonical for what I-JSON and Hookgate don't take. */
export function canonicalize(value, path = "tool_args", depth = 0) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") return writeNumber(value, path);
  if (typeof value === "string") return writeText(value, path);
  if (typeof value !== "object") throw new NotCanonical(path, `is a ${typeof value}, not JSON`);
  if (depth >= MAX_DEPTH) throw new NotCanonical(path, `is more than ${MAX_DEPTH} levels deep`);
  if (Array.isArray(value)) {
    return `[${value.map((item, at) => canonicalize(item, `${path}[${at}]`, depth + 1)).join(",")}]`;
  }
  // JavaScript compares strings by UTF-16 code units, which is the order that RFC 8785 wants.
  const members = Object.keys(value)
    .sort()
    .map((key) => {
      const below = extend(path, key);
      return `${writeText(key, below)}:${canonicalize(value[key], below, depth + 1)}`;
    });
  return `{${members.join(",")}}`;
}

/** `sha256:` and the hex SHA-256 of the canonical text. */
export function digest(value) {
  return "sha256:" + createHash("sha256").update(canonicalize(value), "utf8").digest("hex");
}

function writeNumber(value, path) {
  if (!Number.isFinite(value)) throw new NotCanonical(path, "is not a finite number");
  // JSON.stringify writes numbers as RFC 8785 wants them, and -0 as 0.
  const text = JSON.stringify(value);
  if (/^-?\d+$/.test(text) && !Number.isSafeInteger(value)) {
    throw new NotCanonical(path, "is an integer beyond ±(2^53−1); send it as a text");
  }
  return text;
}

function writeText(text, path) {
  if (text.includes("\0")) throw new NotCanonical(path, "has a NUL");
  if (!text.isWellFormed()) throw new NotCanonical(path, "has half a surrogate pair");
  return JSON.stringify(text);
}

function extend(path, key) {
  return /^[A-Za-z_]\w*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
}
