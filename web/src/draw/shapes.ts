// The part of a canvas' context that drawings use, which keeps shapes instead of pixels: for SVG.

const escaped = (text: string): string =>
  text
    .replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, '\ufffd');
const short = (n: number): string => String(Math.round(n * 100) / 100);

interface Style {
  fillStyle: string;
  strokeStyle: string;
  lineWidth: number;
  globalAlpha: number;
  font: string;
  textBaseline: string;
  dash: readonly number[];
  dx: number;
  dy: number;
  groups: number;
}

export class Shapes {
  fillStyle = '#000';
  strokeStyle = '#000';
  lineWidth = 1;
  globalAlpha = 1;
  font = '12px sans-serif';
  textBaseline = 'alphabetic';
  private dash: readonly number[] = [];
  private dx = 0;
  private dy = 0;
  private groups = 0;
  private path = '';
  private readonly out: string[] = [];
  private readonly saved: Style[] = [];
  private clips = 0;
  private readonly measure = document.createElement('canvas').getContext('2d');

  setTransform(_a: number, _b: number, _c: number, _d: number, dx: number, dy: number): void {
    this.dx = dx;
    this.dy = dy;
  }
  setLineDash(dash: readonly number[]): void {
    this.dash = dash;
  }
  clearRect(): void {}
  beginPath(): void {
    this.path = '';
  }
  closePath(): void {
    this.path += 'Z';
  }
  moveTo(x: number, y: number): void {
    this.path += `M${this.at(x, y)}`;
  }
  lineTo(x: number, y: number): void {
    this.path += `${this.path === '' ? 'M' : 'L'}${this.at(x, y)}`;
  }
  rect(x: number, y: number, w: number, h: number): void {
    this.path += `M${this.at(x, y)}h${short(w)}v${short(h)}h${short(-w)}Z`;
  }
  roundRect(x: number, y: number, w: number, h: number): void {
    this.rect(x, y, w, h);
  }
  fill(): void {
    this.put(`<path d="${this.path}" fill="${escaped(this.fillStyle)}"${this.alpha()}/>`);
  }
  stroke(): void {
    this.put(`<path d="${this.path}" fill="none" ${this.line()}/>`);
  }
  fillRect(x: number, y: number, w: number, h: number): void {
    if (w > 0 && h > 0) this.put(`<rect ${this.box(x, y, w, h)} fill="${escaped(this.fillStyle)}"${this.alpha()}/>`);
  }
  strokeRect(x: number, y: number, w: number, h: number): void {
    this.put(`<rect ${this.box(x, y, w, h)} fill="none" ${this.line()}/>`);
  }
  fillText(text: string, x: number, y: number): void {
    const lower = this.textBaseline === 'middle' ? ' dominant-baseline="central"' : '';
    this.put(
      `<text x="${short(x + this.dx)}" y="${short(y + this.dy)}"${lower} style="font:${escaped(this.font)}" fill="${escaped(this.fillStyle)}"${this.alpha()}>${escaped(text)}</text>`,
    );
  }
  measureText(text: string): TextMetrics {
    if (!this.measure) throw new Error('the browser has no canvas');
    this.measure.font = this.font;
    return this.measure.measureText(text);
  }
  clip(): void {
    this.clips++;
    this.put(`<clipPath id="c${this.clips}"><path d="${this.path}"/></clipPath><g clip-path="url(#c${this.clips})">`);
    this.groups++;
  }
  save(): void {
    const { fillStyle, strokeStyle, lineWidth, globalAlpha, font, textBaseline, dash, dx, dy, groups } = this;
    this.saved.push({ fillStyle, strokeStyle, lineWidth, globalAlpha, font, textBaseline, dash, dx, dy, groups });
  }
  restore(): void {
    const style = this.saved.pop();
    if (!style) return;
    for (; this.groups > style.groups; this.groups--) this.put('</g>');
    Object.assign(this, style);
  }

  svg(width: number, height: number): string {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${short(width)}" height="${short(height)}" viewBox="0 0 ${short(width)} ${short(height)}">\n${this.out.join('\n')}\n</svg>\n`;
  }

  private put(text: string): void {
    this.out.push(text);
  }
  private at(x: number, y: number): string {
    return `${short(x + this.dx)} ${short(y + this.dy)}`;
  }
  private box(x: number, y: number, w: number, h: number): string {
    return `x="${short(x + this.dx)}" y="${short(y + this.dy)}" width="${short(w)}" height="${short(h)}"`;
  }
  private alpha(): string {
    return this.globalAlpha < 1 ? ` opacity="${short(this.globalAlpha)}"` : '';
  }
  private line(): string {
    return `stroke="${escaped(this.strokeStyle)}" stroke-width="${short(this.lineWidth)}"${this.dash.length ? ` stroke-dasharray="${this.dash.join(' ')}"` : ''}${this.alpha()}`;
  }
}
