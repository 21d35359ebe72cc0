// Small comforts of every page; each works without this file too.
"use strict";

// The language switches when it is chosen; the button is for those without JavaScript.
for (const form of document.querySelectorAll("form.language")) {
  form.querySelector("button").hidden = true;
  form.querySelector("select").addEventListener("change", () => form.requestSubmit());
}

// How long is left, beside each deadline.
const units = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
const relative = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "always" });

function remaining(deadline) {
  const seconds = Math.round((deadline - Date.now()) / 1000);
  const [size, unit] = units.find(([length]) => Math.abs(seconds) >= length) ?? units[3];
  return relative.format(Math.trunc(seconds / size), unit);
}

function count() {
  for (const time of document.querySelectorAll("time[data-countdown]")) {
    let beside = time.nextElementSibling;
    if (!beside?.classList.contains("remaining")) {
      beside = document.createElement("span");
      beside.className = "remaining";
      time.after(beside);
    }
    beside.textContent = remaining(Date.parse(time.dateTime));
  }
}

// Buttons go with the deadline, also where nobody can say so any more. The portal says how long is left; this
// machine's clock may be wrong, so what has passed is measured.

function close() {
  for (const form of document.querySelectorAll("form[data-until]")) {
    form.dataset.at ??= performance.now();
    if (performance.now() - form.dataset.at < form.dataset.until * 1000) continue;
    for (const button of form.querySelectorAll("button")) button.remove();
    const late = form.parentElement.querySelector(".late");
    if (late) late.hidden = false;
  }
}

count();
close();
setInterval(() => { count(); close(); }, 1000);
