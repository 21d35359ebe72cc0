// Keeps the chat fresh without touching what the person is typing, and sends presses without leaving the page.
"use strict";

const body = document.body;
const box = document.getElementById("messages");
const toast = document.getElementById("toast");
const dialog = document.getElementById("confirm");
let hiding = 0;

function show(message) {
  toast.textContent = message.content || "";
  toast.className = message.type || "";
  clearTimeout(hiding);
  if (message.content) hiding = setTimeout(() => { toast.textContent = ""; toast.className = ""; }, 6000);
}

function atEnd() {
  return box.scrollHeight - box.scrollTop - box.clientHeight < 80;
}

function replaceKeepingTyped(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const { name, selectionStart, selectionEnd } = focused || {};
  for (const field of old.querySelectorAll("textarea, input:not([type=hidden]), select")) {
    const twin = fresh.querySelector(`[name="${CSS.escape(field.name)}"]`);
    if (twin) twin.value = field.value;
  }
  old.replaceWith(fresh);
  const heir = focused && name ? fresh.querySelector(`[name="${CSS.escape(name)}"]`) : null;
  if (!heir) return;
  heir.focus();
  if (selectionStart != null) heir.setSelectionRange(selectionStart, selectionEnd);
}

function merge(fresh) {
  const follow = atEnd();
  const known = new Map([...box.querySelectorAll("article")].map((item) => [item.dataset.messageId, item]));
  for (const item of [...fresh.querySelectorAll("article")]) {
    const old = known.get(item.dataset.messageId);
    known.delete(item.dataset.messageId);
    if (!old) {
      box.querySelector(".empty")?.remove();
      box.append(item);
    } else if (old.dataset.version !== item.dataset.version) {
      replaceKeepingTyped(old, item);
    }
  }
  for (const gone of known.values()) gone.remove();
  if (follow) box.scrollTop = box.scrollHeight;
}

async function refresh() {
  const query = new URLSearchParams({ as: body.dataset.as, chat: body.dataset.chat });
  const answer = await fetch(`fragment?${query}`);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const chats = document.getElementById("chats");
  const freshChats = page.getElementById("chats");
  if (freshChats && chats.innerHTML !== freshChats.innerHTML) chats.replaceWith(freshChats);
  const fresh = page.getElementById("messages");
  if (fresh) merge(fresh);
}

async function tick() {
  try {
    await refresh();
  } catch {
    // The server is being restarted: the next tick tries again.
  }
  setTimeout(tick, 1000);
}

function confirmed(button) {
  if (!button || !button.dataset.confirmTitle) return Promise.resolve(true);
  dialog.querySelector("h2").textContent = button.dataset.confirmTitle;
  dialog.querySelector("p").textContent = button.dataset.confirmText;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

async function press(form, button) {
  if (!(await confirmed(button))) return;
  const data = new URLSearchParams(new FormData(form, button));
  button.classList.add("busy");
  button.disabled = true;
  try {
    const answer = await fetch(form.action, { method: "POST", body: data, headers: { Accept: "application/json" } });
    show(await answer.json());
    await refresh();
  } catch {
    show({ type: "error", content: "The sandbox does not answer." });
  }
  button.classList.remove("busy");
  button.disabled = false;
}

document.addEventListener("submit", (event) => {
  if (event.target.method === "dialog" || !event.submitter) return;
  event.preventDefault();
  press(event.target, event.submitter);
});

box.scrollTop = box.scrollHeight;
if (toast.textContent) show({ type: toast.className, content: toast.textContent });
setTimeout(tick, 1000);
