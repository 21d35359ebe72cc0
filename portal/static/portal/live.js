// Draws the parts marked data-live anew whenever the portal says that something has changed.
"use strict";

const source = new EventSource(document.currentScript?.dataset.events ?? "/inbox/events");
let drawing = false;
let again = false;

// What somebody is typing, or has typed, is theirs: that part stays as it is while the new one would offer a field too.
function isBusy(part, fresh) {
  const field = part.querySelector("textarea");
  return field !== null && fresh.querySelector("textarea") !== null;
}

// When the field itself goes (somebody else has decided), what was typed is kept for copying.
function keepText(part) {
  const text = part.querySelector("textarea")?.value.trim();
  if (!text) return null;
  const kept = document.createElement("p");
  kept.className = "hint";
  kept.textContent = text;
  return kept;
}

function replace(part, fresh) {
  if (part.innerHTML === fresh.innerHTML || isBusy(part, fresh)) return;
  const focused = document.activeElement?.closest("a[href]")?.getAttribute("href");
  const kept = keepText(part);
  part.replaceChildren(...fresh.childNodes);
  if (kept) part.append(kept);
  if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

async function draw() {
  if (drawing) {
    again = true;
    return;
  }
  drawing = true;
  try {
    const answer = await fetch(location.pathname + location.search, { credentials: "same-origin" });
    if (answer.redirected) return location.reload();
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = page.title;
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(part.id);
      if (fresh) replace(part, fresh);
    }
  } finally {
    drawing = false;
    if (again) {
      again = false;
      draw();
    }
  }
}

source.addEventListener("inbox", draw);
// What was missed while the connection was down.
let wasDown = false;
source.addEventListener("error", () => { wasDown = true; });
source.addEventListener("open", () => {
  if (wasDown) draw();
  wasDown = false;
});
