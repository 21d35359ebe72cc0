// Names for what the theme leaves without one, for people who listen to a page: its scrolling parts all have one and
// the same, and the heads of some columns have none.
document.addEventListener("DOMContentLoaded", () => {
  for (const head of document.querySelectorAll("th:empty, th:not(:has(*))")) {
    if (!head.textContent.trim()) head.replaceWith(Object.assign(document.createElement("td"), { className: head.className }));
  }
  // The theme's script makes the scrolling parts in the same event, after this one.
  setTimeout(() => {
    document.querySelectorAll('.simplebar-content-wrapper[role="region"]').forEach((part, number) => {
      const title = part.closest("nav, section, fieldset, main, aside")?.querySelector("h1, h2, h3, legend")?.textContent.trim();
      part.setAttribute("aria-label", `${title || part.ariaLabel} (${number + 1})`);
    });
  });
});

// A row that was added is there to be filled in: the theme adds it shut where rows can be shut.
document.addEventListener("formset:added", (event) => {
  const row = event.target;
  const focus = (tries) => {
    const fields = row.querySelectorAll("input:not([type=hidden]), select, textarea");
    const first = [...fields].find((field) => field.checkVisibility());
    if (first) first.focus();
    else if (tries) requestAnimationFrame(() => focus(tries - 1));
  };
  setTimeout(() => {
    // The row says whether it is open; what was added may be a part of it. It is drawn open a frame or two later.
    const holder = row.closest("[x-data*=openRow]");
    if (holder && window.Alpine) Alpine.$data(holder).openRow = true;
    focus(20);
  });
});
