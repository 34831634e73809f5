// A deep-zoom viewer on one canvas: tiles of the picture, the score map and the numbered boxes over them.
// Coordinates are pixels of the full image; `scale` is screen (CSS) pixels to one of them, `x`, `y` what is in the middle.

const MAX_TILES = 300;
const NEAREST = 16; // screen pixels to one of the image
const SHARP = 5; // from here on, pixels are squares
const LIT = "#ffb000";
// Dark to bright through red; low scores let the image through.
const HEAT = [[40, 11, 84], [101, 21, 110], [188, 55, 84], [237, 105, 37], [251, 180, 26], [252, 255, 164]];

export class Viewer extends EventTarget {
  constructor(canvas) {
    super();
    Object.assign(this, { canvas, picture: null, lit: -1, boxes: true, map: true, opacity: 0.8, moved: false });
    this.pen = canvas.getContext("2d");
    this.pointers = new Map();
    new ResizeObserver(() => this.resize()).observe(canvas);
    canvas.addEventListener("wheel", (e) => this.onWheel(e), { passive: false });
    canvas.addEventListener("keydown", (e) => this.onKey(e));
    canvas.addEventListener("pointerdown", (e) => this.onDown(e));
    canvas.addEventListener("pointermove", (e) => this.onMove(e));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (e) => this.pointers.delete(e.pointerId));
    canvas.addEventListener("pointerleave", () => this.light(-1));
  }

  // stay: another model's answer for the same image, seen from the same place.
  show(answer, { stay = false } = {}) {
    const [height, width] = answer.size;
    this.picture = { height, width, ...answer.image, found: answer.boxes };
    this.heat = answer.scores && { extent: answer.scores.extent, chart: paint(answer.scores) };
    this.tiles = new Map();
    this.lit = -1;
    if (stay) this.redraw();
    else this.fit();
  }

  // What is seen now, as a PNG.
  picturePng() {
    this.draw();
    return new Promise((done) => this.canvas.toBlob(done, "image/png"));
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    this.dpr = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(clientWidth * this.dpr);
    this.canvas.height = Math.round(clientHeight * this.dpr);
    if (this.moved) this.redraw();
    else this.fit();
  }

  get fitting() {
    const { clientWidth, clientHeight } = this.canvas;
    return Math.min((clientWidth - 24) / this.picture.width, (clientHeight - 24) / this.picture.height);
  }

  fit() {
    if (!this.picture) return;
    Object.assign(this, { scale: this.fitting, x: this.picture.width / 2, y: this.picture.height / 2, moved: false });
    this.redraw();
  }

  goTo({ left, top, right, bottom }) {
    const room = Math.min(this.canvas.clientWidth / (right - left), this.canvas.clientHeight / (bottom - top));
    Object.assign(this, { x: (left + right) / 2, y: (top + bottom) / 2, scale: Math.min(room / 3, NEAREST), moved: true });
    this.redraw();
  }

  zoom(factor, px = this.canvas.clientWidth / 2, py = this.canvas.clientHeight / 2) {
    const scale = Math.min(Math.max(this.scale * factor, this.fitting / 2), Math.max(NEAREST, this.fitting));
    const dx = px - this.canvas.clientWidth / 2, dy = py - this.canvas.clientHeight / 2;
    this.pan(dx / this.scale - dx / scale, dy / this.scale - dy / scale, scale);
  }

  pan(dx, dy, scale = this.scale) {
    const { width, height } = this.picture;
    this.x = Math.min(Math.max(this.x + dx, 0), width);
    this.y = Math.min(Math.max(this.y + dy, 0), height);
    Object.assign(this, { scale, moved: true });
    this.redraw();
  }

  light(number) {
    if (number === this.lit) return;
    this.lit = number;
    this.dispatchEvent(new CustomEvent("light", { detail: number }));
    this.redraw();
  }

  set(options) {
    Object.assign(this, options);
    this.redraw();
  }

  onWheel(event) {
    event.preventDefault();
    if (this.picture) this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.offsetX, event.offsetY);
  }

  onKey(event) {
    const step = 80 / this.scale;
    const keys = {
      "+": () => this.zoom(1.4), "=": () => this.zoom(1.4), "-": () => this.zoom(1 / 1.4), 0: () => this.fit(),
      ArrowLeft: () => this.pan(-step, 0), ArrowRight: () => this.pan(step, 0),
      ArrowUp: () => this.pan(0, -step), ArrowDown: () => this.pan(0, step),
    };
    if (!this.picture || !keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  }

  onDown(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  }

  onMove(event) {
    if (!this.picture) return;
    const before = this.pointers.get(event.pointerId), now = [event.offsetX, event.offsetY];
    if (!before) return this.light(this.boxes ? this.boxAt(...now) : -1);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, now);
    const share = other ? 2 : 1; // each of two fingers moves the picture by half
    this.pan((before[0] - now[0]) / this.scale / share, (before[1] - now[1]) / this.scale / share);
    if (other) this.zoom(distance(now, other) / (distance(before, other) || 1), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  }

  // The smallest box under the pointer.
  boxAt(px, py) {
    const x = this.x + (px - this.canvas.clientWidth / 2) / this.scale;
    const y = this.y + (py - this.canvas.clientHeight / 2) / this.scale;
    const area = (box) => (box.right - box.left) * (box.bottom - box.top);
    return this.picture.found.reduce((best, box, i, all) => {
      const inside = x >= box.left && x < box.right && y >= box.top && y < box.bottom;
      return inside && (best < 0 || area(box) < area(all[best])) ? i : best;
    }, -1);
  }

  // Device pixels of a point of the image; whole ones, so that neighboring tiles leave no seam.
  at(x, y) {
    const scale = this.scale * this.dpr;
    return [Math.round((x - this.x) * scale + this.canvas.width / 2), Math.round((y - this.y) * scale + this.canvas.height / 2)];
  }

  redraw() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      if (this.picture && this.canvas.width) this.draw();
    });
  }

  draw() {
    this.pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.pen.imageSmoothingEnabled = this.scale < SHARP;
    this.pen.imageSmoothingQuality = "high";
    const last = this.picture.levels - 1;
    const wanted = Math.min(Math.max(last + Math.ceil(Math.log2(this.scale * this.dpr)), 0), last);
    for (let level = 0; level <= wanted; level++) this.drawLevel(level, level === 0 || level === wanted);
    this.pen.imageSmoothingEnabled = true;
    if (this.heat && this.map) this.drawMap();
    if (this.boxes) this.drawBoxes();
  }

  // What is there of a level, coarse levels under fine ones; of the wanted level the rest is fetched.
  drawLevel(level, fetch) {
    const { width, height, tile_px, levels } = this.picture;
    const side = tile_px * 2 ** (levels - 1 - level);
    const halfWidth = this.canvas.clientWidth / 2 / this.scale, halfHeight = this.canvas.clientHeight / 2 / this.scale;
    const range = (middle, half, end) => [Math.max(Math.floor((middle - half) / side), 0), Math.min(Math.ceil((middle + half) / side), Math.ceil(end / side))];
    const [x0, x1] = range(this.x, halfWidth, width), [y0, y1] = range(this.y, halfHeight, height);
    for (let y = y0; y < y1; y++) {
      for (let x = x0; x < x1; x++) {
        const tile = this.tile(level, x, y, fetch);
        if (!tile?.complete || !tile.naturalWidth) continue;
        const [left, top] = this.at(x * side, y * side);
        const [right, bottom] = this.at(Math.min((x + 1) * side, width), Math.min((y + 1) * side, height));
        this.pen.drawImage(tile, left, top, right - left, bottom - top);
      }
    }
  }

  tile(level, x, y, fetch) {
    const key = `${level}/${x}/${y}`, tiles = this.tiles;
    let tile = tiles.get(key);
    if (!tile && fetch) {
      tile = new Image();
      tile.onload = () => tiles === this.tiles && this.redraw();
      tile.onerror = () => this.ask(tiles, key, tile.src);
      tile.src = this.picture.tiles.replace("{level}", level).replace("{x}", x).replace("{y}", y);
    }
    if (!tile) return null;
    tiles.delete(key); // and to the end: the first ones are the longest unused
    tiles.set(key, tile);
    for (const old of tiles.keys()) {
      if (tiles.size <= MAX_TILES) break;
      tiles.delete(old);
    }
    return tile;
  }

  // Why a tile did not come: an image only says that it did not.
  async ask(tiles, key, address) {
    const response = await fetch(address).catch(() => null);
    const { detail } = (await response?.json().catch(() => null)) ?? {};
    if (tiles !== this.tiles) return;
    if (![404, 422].includes(response?.status)) tiles.delete(key); // it may come when it is drawn again
    if (!response?.ok) this.dispatchEvent(new CustomEvent("failed", { detail: { status: response?.status, why: detail } }));
  }

  drawMap() {
    const [left, top, right, bottom] = this.heat.extent;
    const [x0, y0] = this.at(left, top), [x1, y1] = this.at(right, bottom);
    const [clipX0, clipY0] = this.at(0, 0), [clipX1, clipY1] = this.at(this.picture.width, this.picture.height);
    this.pen.save();
    this.pen.beginPath();
    this.pen.rect(clipX0, clipY0, clipX1 - clipX0, clipY1 - clipY0);
    this.pen.clip();
    this.pen.globalAlpha = this.opacity;
    this.pen.drawImage(this.heat.chart, x0, y0, x1 - x0, y1 - y0);
    this.pen.restore();
  }

  drawBoxes() {
    const order = this.picture.found.map((_, i) => i).reverse().sort((a, b) => (a === this.lit) - (b === this.lit));
    const corners = order.map((i) => {
      const box = this.picture.found[i];
      return [i, ...this.at(box.left, box.top), ...this.at(box.right, box.bottom)];
    });
    for (const [i, x0, y0, x1, y1] of corners) {
      for (const [width, color] of [[5, "rgb(0 0 0 / .55)"], [2, i === this.lit ? LIT : "white"]]) {
        this.pen.lineWidth = width * this.dpr;
        this.pen.strokeStyle = color;
        this.pen.strokeRect(x0, y0, x1 - x0, y1 - y0);
      }
    }
    this.drawNumbers(corners.reverse());
  }

  // A number at the first corner where it hides no other.
  drawNumbers(corners) {
    const high = 19 * this.dpr, taken = [];
    this.pen.font = `600 ${13 * this.dpr}px system-ui, sans-serif`;
    Object.assign(this.pen, { textAlign: "center", textBaseline: "middle" });
    for (const [i, x0, y0, x1, y1] of corners) {
      const text = String(i + 1), wide = this.pen.measureText(text).width + 11 * this.dpr;
      const spots = [y0 - high, y1, y0, y1 - high].flatMap((y) => [[x0, y], [x1 - wide, y]]);
      const free = ([x, y]) => y >= 0 && !taken.some(([u, v, w]) => x < u + w && u < x + wide && y < v + high && v < y + high);
      const [x, y] = spots.find(free) ?? spots[0];
      taken.push([x, y, wide]);
      this.pen.fillStyle = i === this.lit ? LIT : "rgb(0 0 0 / .78)";
      this.pen.fillRect(x, y, wide, high);
      this.pen.fillStyle = i === this.lit ? "black" : "white";
      this.pen.fillText(text, x + wide / 2, y + high / 2);
    }
  }
}

const distance = ([a, b], [c, d]) => Math.hypot(a - c, b - d);

// The scores as a small picture, to be stretched over the image.
function paint({ rows, cols, values }) {
  const chart = Object.assign(document.createElement("canvas"), { width: cols, height: rows });
  const pen = chart.getContext("2d"), pixels = pen.createImageData(cols, rows);
  values.flat().forEach((score, i) => {
    const place = score * (HEAT.length - 1), low = Math.min(Math.floor(place), HEAT.length - 2);
    HEAT[low].forEach((value, c) => { pixels.data[4 * i + c] = value + (HEAT[low + 1][c] - value) * (place - low); });
    pixels.data[4 * i + 3] = 255 * 0.8 * score ** 2;
  });
  pen.putImageData(pixels, 0, 0);
  return chart;
}
