// A button that asks Python to stop, and shows that it was heard.
export default {
  render({ model, el }) {
    const button = document.createElement("button");
    button.className = "jupyter-button widget-button gb-stop";
    button.style.cssText = "width: auto; min-width: 8em; margin: 2px 0;";
    const paint = () => {
      button.textContent = model.get("label");
      button.disabled = model.get("disabled");
      el.style.display = model.get("hidden") ? "none" : "";
    };
    button.addEventListener("click", () => {
      button.disabled = true;
      button.textContent = "Stopping…";
      model.send({ kind: "stop" });
    });
    for (const name of ["label", "disabled", "hidden"]) model.on(`change:${name}`, paint);
    paint();
    el.append(button);
  },
};
