// Shows the operations that have all words of the field. Without it, the menu and the browser find.

const field = document.querySelector("#find");
const operations = [...document.querySelectorAll(".operation")];

const show = () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = operations.filter((each) => {
    each.hidden = !words.every((word) => each.dataset.words.includes(word));
    return !each.hidden;
  });
  for (const group of document.querySelectorAll("section")) {
    group.hidden = !group.querySelector(".operation:not([hidden])");
  }
  document.querySelector("#found").textContent = words.length ? `${found.length} of ${operations.length}` : "";
};

field.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input")) return;
  event.preventDefault();
  field.focus();
});
show(); // a browser keeps the text of the field
