// Buttons that copy what stands beside them. Without a clipboard (plain http from another machine, say) the text is
// selected instead, so that the keyboard copies it.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.textContent);
      document.getElementById("copied").textContent = button.dataset.copied;
    } catch {
      getSelection().selectAllChildren(text);
    }
  });
}
