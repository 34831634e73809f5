// The page: an image goes to the server, its answer comes back and is shown.

import { Viewer } from "./viewer.js";

const $ = (id) => document.getElementById(id);
const viewer = new Viewer($("viewer"));
const megabytes = (bytes) => `${+(bytes / 1e6).toPrecision(3)} MB`;
const megapixels = (pixels) => `${Math.round(pixels / 1e6).toLocaleString("en")} megapixels`;
const percent = (share) => `${(Math.floor(1000 * share) / 10).toFixed(1)}%`; // only what is certain is 100%
let limits = null, upload = null;

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function say(problem) {
  $("problem").textContent = problem;
  $("problem").hidden = !problem;
}

function busy(on) {
  $("progress").hidden = !on;
  document.body.classList.toggle("busy", on);
}

async function greet() {
  let response, answer;
  try {
    response = await fetch("/api/model");
    answer = await response.json();
  } catch {
    return say("The server does not answer: is it still running?");
  }
  if (!response.ok) return say(answer.detail);
  limits = answer;
  $("model").textContent = `${limits.name} · ${limits.classes.length} classes`;
  $("limits").textContent = `Up to ${megabytes(limits.max_bytes)} and ${megapixels(limits.max_pixels)}; `
    + `tiled pyramids (slides) up to ${megapixels(limits.max_slide_pixels)}.`;
}

async function send(file) {
  upload?.abort(); // a newer image replaces the one under way
  const mine = upload = new AbortController();
  say("");
  if (limits && file.size > limits.max_bytes) {
    return say(`${file.name} has ${megabytes(file.size)}, the limit is ${megabytes(limits.max_bytes)}.`);
  }
  busy(true);
  try {
    const form = new FormData();
    form.append("file", file);
    const response = await fetch("/api/predict", { method: "POST", body: form, signal: mine.signal });
    const answer = await response.json().catch(() => ({ detail: `the server failed (${response.status})` }));
    if (response.ok) show(answer);
    else say(`${file.name}: ${answer.detail}`);
  } catch (error) {
    if (error.name !== "AbortError") say(`${file.name} could not be sent: ${error.message}`);
  } finally {
    if (mine === upload) busy(false);
  }
}

function show(answer) {
  $("invitation").hidden = true;
  $("result").hidden = false;
  const ranked = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]);
  const said = Object.entries(answer.answers ?? {}).map(([question, text]) => `${question}: ${text}`);
  const labels = answer.labels?.join(", ") ?? answer.label;
  $("label").textContent = said.join(" · ") || labels || "none of the labels";
  $("sure").textContent = answer.confidence === null ? "" : `${percent(answer.confidence)} sure`;
  $("decision").textContent = answer.decision === null ? "" : `Decision: ${decided(answer)}`;
  $("decision").hidden = answer.decision === null;
  $("review").hidden = !answer.review;
  $("probabilities").replaceChildren(...ranked.map((one) => bar(answer, one)));
  $("crops").replaceChildren(...answer.crops.map((address, i) => crop(answer, address, i)));
  $("looked").hidden = !answer.boxes.length;
  $("layers").hidden = !answer.boxes.length && !answer.scores;
  $("map-switch").hidden = $("map-opacity").hidden = !answer.scores;
  const [height, width] = answer.size;
  $("facts").textContent = `${answer.image.name} · ${width} × ${height} px · looked for ${Math.round(answer.milliseconds)} ms`;
  viewer.canvas.setAttribute("aria-label", `${answer.image.name}: ${answer.label}, ${answer.boxes.length} boxes`);
  viewer.show(answer);
}

// Of several labels it is written `open;short`, and `;` is none of them.
function decided({ decision, labels }) {
  if (!labels) return decision;
  return decision.split(";").filter(Boolean).join(", ") || "none of the labels";
}

// Of several labels each says which boxes speak for it, and lights the first of them.
function bar(answer, [name, share]) {
  const length = element("i");
  length.style.width = percent(share);
  const speak = answer.boxes.flatMap((box, i) => (box.labels?.includes(name) ? [i] : []));
  const words = speak.length ? `${name} · box ${speak.map((i) => i + 1).join(", ")}` : name;
  const item = element("li", {}, length, element("span", { textContent: words }), element("span", { textContent: percent(share) }));
  if (speak.length) {
    item.addEventListener("pointerenter", () => viewer.light(speak[0]));
    item.addEventListener("pointerleave", () => viewer.light(-1));
  }
  return item;
}

function crop(answer, address, i) {
  const box = answer.boxes[i];
  const score = box.score === null ? "" : box.score.toFixed(2);
  const picture = element("img", { src: address, alt: "" });
  const labels = (box.labels ?? []).join(", ");
  const words = element("span", {}, element("b", { textContent: i + 1 }), score, labels && ` ${labels}`);
  const button = element("button", { type: "button", ariaLabel: `Box ${i + 1}${score && `, score ${score}`}${labels && `, speaks for ${labels}`}: go there` }, picture, words);
  for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => viewer.light(i));
  for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => viewer.light(-1));
  button.addEventListener("click", () => viewer.goTo(box));
  return element("li", {}, button);
}

viewer.addEventListener("light", ({ detail }) => {
  [...$("crops").children].forEach((item, i) => item.firstChild.classList.toggle("lit", i === detail));
});
viewer.addEventListener("failed", ({ detail: { status, why } }) => {
  if (!status) say("The server does not answer: is it still running?");
  else if (status === 404) say("The server no longer keeps this image: send it again to look closer.");
  else say(`A part of the image cannot be shown: ${why ?? `the server failed (${status})`}.`);
});

$("choose").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => {
  const [file] = $("file").files;
  if (file) send(file);
  $("file").value = ""; // so that the same file can be chosen again
});
for (const event of ["dragover", "drop", "dragleave"]) {
  window.addEventListener(event, (e) => {
    e.preventDefault();
    document.body.classList.toggle("over", event === "dragover");
    const file = event === "drop" && e.dataTransfer.files[0];
    if (file) send(file);
  });
}
$("nearer").addEventListener("click", () => viewer.zoom(1.6));
$("farther").addEventListener("click", () => viewer.zoom(1 / 1.6));
$("whole").addEventListener("click", () => viewer.fit());
$("show-boxes").addEventListener("change", (e) => viewer.set({ boxes: e.target.checked }));
$("show-map").addEventListener("change", (e) => viewer.set({ map: e.target.checked }));
$("opacity").addEventListener("input", (e) => viewer.set({ opacity: e.target.value / 100 }));
$("viewer").viewer = viewer; // for who looks into the page
greet();
