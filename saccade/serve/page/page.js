// The page: an image goes to the server, its answer comes back and is shown.

import { $, element, percent } from "./dom.js";
import { Viewer } from "./viewer.js";

const viewer = new Viewer($("viewer"));
const megabytes = (bytes) => `${+(bytes / 1e6).toPrecision(3)} MB`;
const megapixels = (pixels) => `${Math.round(pixels / 1e6).toLocaleString("en")} megapixels`;
const shown = []; // images with their answers, in the order in which they came
let limits = null, upload = null, current = null;

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
  $("model").textContent = `${limits.models.join(" and ")} · ${limits.classes.length} classes`;
  $("example").hidden = !limits.example;
  $("limits").textContent = `Up to ${megabytes(limits.max_bytes)} and ${megapixels(limits.max_pixels)}; `
    + `tiled pyramids (slides) up to ${megapixels(limits.max_slide_pixels)}.`;
}

// One after the other, each by every model; newer images replace those under way, and what was answered stays.
async function send(files) {
  upload?.abort();
  const mine = upload = new AbortController();
  say("");
  busy(true);
  for (const file of files) {
    if (mine.signal.aborted) break;
    const answers = await ask(file, mine.signal);
    if (!answers) continue;
    shown.push({ file, answers });
    choose(shown.length - 1);
  }
  if (mine === upload) busy(false);
}

// The answers of all models by name; null, and why, if there is none.
async function ask(file, signal) {
  if (limits && file.size > limits.max_bytes) {
    return complain(`${file.name} has ${megabytes(file.size)}, the limit is ${megabytes(limits.max_bytes)}.`);
  }
  const answers = {};
  try {
    for (const model of limits?.models ?? [""]) {
      const form = new FormData();
      form.append("file", file);
      const response = await fetch(`/api/predict${model && `?model=${encodeURIComponent(model)}`}`, { method: "POST", body: form, signal });
      const answer = await response.json().catch(() => ({ detail: `the server failed (${response.status})` }));
      if (!response.ok) return complain(`${file.name}: ${answer.detail}`);
      answers[model] = answer;
    }
    return answers;
  } catch (error) {
    return error.name === "AbortError" ? null : complain(`${file.name} could not be sent: ${error.message}`);
  }
}

function complain(problem) {
  say([$("problem").textContent, problem].filter(Boolean).join(" "));
  return null;
}

// Show image `number`, as `model` answered.
function choose(number, model = Object.keys(shown[number].answers)[0]) {
  const stay = current?.number === number;
  current = { number, model };
  $("gallery").hidden = shown.length < 2;
  $("gallery").replaceChildren(...shown.map(thumbnail));
  $("gallery").children[number].scrollIntoView?.({ block: "nearest", inline: "nearest" });
  const answers = Object.entries(shown[number].answers);
  $("models").hidden = answers.length < 2;
  $("models").replaceChildren(...answers.map(([name, answer]) => modelButton(name, answer)));
  show(shown[number].answers[model], stay);
}

function thumbnail({ file, answers }, i) {
  const [answer] = Object.values(answers);
  const address = answer.image.tiles.replace("{level}", 0).replace("{x}", 0).replace("{y}", 0);
  const said = sayAnswer(answer);
  const button = element("button", { type: "button", ariaLabel: `${file.name}: ${said}`, title: file.name }, element("img", { src: address, alt: "" }), element("span", { textContent: said }));
  button.setAttribute("aria-current", String(i === current.number));
  button.addEventListener("click", () => { choose(i); $("gallery").children[i].firstChild.focus(); });
  return element("li", {}, button);
}

function modelButton(name, answer) {
  const sure = answer.confidence === null ? "" : percent(answer.confidence);
  const button = element("button", { type: "button", className: "plain" }, element("span", { textContent: name }), element("b", { textContent: `${sayAnswer(answer)} ${sure}` }));
  button.setAttribute("aria-pressed", String(name === current.model));
  button.addEventListener("click", () => {
    choose(current.number, name);
    $("models").querySelector("[aria-pressed=true]").focus();
  });
  return button;
}

function sayAnswer(answer) {
  const said = Object.entries(answer.answers ?? {}).map(([question, text]) => `${question}: ${text}`);
  return said.join(" · ") || (answer.labels?.join(", ") ?? answer.label) || "none of the labels";
}

function show(answer, stay) {
  $("invitation").hidden = true;
  $("result").hidden = false;
  const ranked = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]);
  $("label").textContent = sayAnswer(answer);
  $("sure").textContent = answer.confidence === null ? "" : `${percent(answer.confidence)} sure`;
  $("decision").textContent = answer.decision === null ? "" : `Decision: ${decided(answer)}`;
  $("decision").hidden = answer.decision === null;
  $("review").hidden = !answer.review;
  $("probabilities").replaceChildren(...ranked.map((one) => bar(answer, one)));
  $("probabilities").hidden = !ranked.length;
  $("crops").replaceChildren(...answer.crops.map((address, i) => crop(answer, address, i)));
  $("looked").hidden = !answer.boxes.length;
  $("layers").hidden = !answer.boxes.length && !answer.scores;
  $("map-switch").hidden = $("map-opacity").hidden = !answer.scores;
  const [height, width] = answer.size;
  $("facts").textContent = `${answer.image.name} · ${width} × ${height} px · looked for ${Math.round(answer.milliseconds)} ms`;
  viewer.canvas.setAttribute("aria-label", `${answer.image.name}: ${sayAnswer(answer)}, ${answer.boxes.length} boxes`);
  viewer.show(answer, { stay });
}

// What `saccade predict` would write of every image that is shown, a line each.
function lines() {
  const several = (limits?.models.length ?? 1) > 1;
  return shown.flatMap(({ file, answers }) => Object.entries(answers).map(([model, answer]) => {
    const { image, scores, crops, ...line } = answer;
    return JSON.stringify({ image: file.name, ...(several ? { model } : {}), ...line });
  })).join("\n") + "\n";
}

function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
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
  if ($("file").files.length) send([...$("file").files]);
  $("file").value = ""; // so that the same file can be chosen again
});
for (const event of ["dragover", "drop", "dragleave"]) {
  window.addEventListener(event, (e) => {
    e.preventDefault();
    document.body.classList.toggle("over", event === "dragover");
    if (event === "drop" && e.dataTransfer.files.length) send([...e.dataTransfer.files]);
  });
}
$("example").addEventListener("click", async () => {
  const response = await fetch("/api/example").catch(() => null);
  if (response?.ok) send([new File([await response.blob()], limits.example)]);
  else say("The example did not come: is the server still running?");
});
$("lines").addEventListener("click", () => save("answers.jsonl", new Blob([lines()], { type: "application/jsonl" })));
$("overlay").addEventListener("click", async () => {
  const { name } = shown[current.number].file;
  save(`${name.replace(/\.[^.]*$/, "")}-looked.png`, await viewer.picturePng());
});
$("nearer").addEventListener("click", () => viewer.zoom(1.6));
$("farther").addEventListener("click", () => viewer.zoom(1 / 1.6));
$("whole").addEventListener("click", () => viewer.fit());
$("show-boxes").addEventListener("change", (e) => viewer.set({ boxes: e.target.checked }));
$("show-map").addEventListener("change", (e) => viewer.set({ map: e.target.checked }));
$("opacity").addEventListener("input", (e) => viewer.set({ opacity: e.target.value / 100 }));
$("viewer").viewer = viewer; // for who looks into the page
greet();
