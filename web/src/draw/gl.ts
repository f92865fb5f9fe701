// The painter on WebGL2: a tile goes to the graphics processor once, where it is on the screen is a handful of numbers.
// Positions are relative to the tile, so that 32 bits are enough at every zoom.

import { PALETTE, SHAPES, shapeOf } from '../state/states';
import type { Tile } from '../state/tiles';
import { TILE_BUCKETS } from '../time/range';
import {
  BAR_MARGIN_PX,
  BAR_PX,
  DOT_PX,
  DOTS_PX,
  EDGED_PX,
  FRAME_PX,
  HATCH_PX,
  LANE_GAP_PX,
  LANE_TOP_PX,
  LEAST_BAR,
  LINE_PX,
  type Painter,
  type Placement,
  SINGLE_PX,
  SINGLE_ROOM_PX,
  STRIPE_PX,
  STRIPES_PX,
} from './painter';
import { resize } from './plain';
import { parseColour, type Theme } from './theme';

const TILE_VERTEX = `#version 300 es
precision highp float;
layout(location = 0) in vec4 entry; // begin, end, value, colour
layout(location = 1) in vec2 more;  // room to the neighbours in buckets, 1: several, -1: no end is known
uniform vec4 place;                 // x, bucket, y, height
uniform vec4 how;                   // lanes (0: bars), lane, peak, alpha
uniform vec2 size;
uniform vec2 span;                  // left, right
uniform float ratio;
uniform float open;
uniform vec4 plain;                 // the colour of all, where its last number is not 0
uniform vec4 fills[${PALETTE}];
uniform vec4 edges[${PALETTE}];
uniform float shapes[${PALETTE}];
out vec2 inside;
out vec2 down;
flat out float shape;
flat out float wide;
flat out float several;
flat out vec4 fill;
flat out vec4 edge;
void main() {
  float begin = place.x + entry.x * place.y;
  float end = more.y < -0.5 ? open : place.x + entry.y * place.y;
  float top, high;
  int colour = int(entry.w + 0.5);
  fill = edges[colour];
  edge = plain.a > 0.0 ? plain : edges[colour];
  if (plain.a > 0.0) fill = plain;
  shape = 0.0;
  if (how.x < 0.5) {
    bool single = entry.z < 0.7 && more.x * place.y >= ${SINGLE_ROOM_PX.toFixed(1)};
    begin = floor(begin * ratio + 0.5) / ratio;
    end = max(end, begin + (single ? ${SINGLE_PX.toFixed(1)} : ${BAR_PX.toFixed(1)}));
    high = max(${LEAST_BAR}, min(1.0, entry.z / how.z)) * (place.w - ${BAR_MARGIN_PX.toFixed(1)});
    top = place.z + place.w - 1.0 - high;
  } else {
    fill = fills[colour];
    shape = shapes[colour];
    end = max(end, begin + 1.0);
    high = entry.z < how.x ? how.y - ${LANE_GAP_PX.toFixed(1)} : 0.0;
    top = place.z + ${LANE_TOP_PX.toFixed(1)} + entry.z * how.y;
  }
  wide = end - begin;
  several = more.y;
  float x = clamp(gl_VertexID % 2 == 0 ? begin : end, span.x - 4.0, span.y + 4.0);
  float y = top + (gl_VertexID < 2 ? 0.0 : high);
  inside = vec2(x - begin, x);
  down = vec2(gl_VertexID < 2 ? 0.0 : high, high);
  gl_Position = vec4(x / size.x * 2.0 - 1.0, 1.0 - y / size.y * 2.0, 0.0, 1.0);
}`;

const TILE_FRAGMENT = `#version 300 es
precision highp float;
in vec2 inside;
in vec2 down;
flat in float shape;
flat in float wide;
flat in float several;
flat in vec4 fill;
flat in vec4 edge;
uniform vec4 how;
uniform vec2 span;
uniform float ratio;
out vec4 colour;
void main() {
  if (inside.y < span.x || inside.y > span.y) discard;
  colour = fill;
  if (shape > 2.5) {
    if (max(mod(gl_FragCoord.x / ratio, ${DOTS_PX.toFixed(1)}), mod(gl_FragCoord.y / ratio, ${DOTS_PX.toFixed(1)})) > ${DOT_PX.toFixed(1)}) discard;
    colour = edge;
  } else if (shape > 1.5) {
    if (abs(down.x - down.y * 0.5) > ${LINE_PX.toFixed(1)}) discard;
    if (wide <= ${EDGED_PX.toFixed(1)}) colour = edge;
  } else if (how.x > 0.5) {
    if (shape > 0.5) {
      bool framed = inside.x < 1.0 || wide - inside.x < 1.0 || down.x < ${FRAME_PX.toFixed(1)} || down.y - down.x < ${FRAME_PX.toFixed(1)};
      if (!framed && several < 0.5) discard;
      colour = framed ? edge : vec4(0.0);
    }
    if (several < 0.5 && wide > ${EDGED_PX.toFixed(1)} && inside.x < 1.0) colour = edge;
    else if (several > 0.5 && mod(gl_FragCoord.x / ratio, ${STRIPES_PX.toFixed(1)}) < ${STRIPE_PX.toFixed(1)}) colour = edge;
  }
  colour *= how.w;
}`;

const RECT_VERTEX = `#version 300 es
precision highp float;
layout(location = 0) in vec4 box;
layout(location = 1) in vec4 ink;
layout(location = 2) in float pattern;
uniform vec2 size;
flat out vec4 fill;
flat out float hatched;
out vec2 at;
void main() {
  vec2 p = box.xy + box.zw * vec2(gl_VertexID % 2, gl_VertexID / 2);
  fill = ink;
  hatched = pattern;
  at = p;
  gl_Position = vec4(p / size * vec2(2.0, -2.0) + vec2(-1.0, 1.0), 0.0, 1.0);
}`;

const RECT_FRAGMENT = `#version 300 es
precision highp float;
flat in vec4 fill;
flat in float hatched;
in vec2 at;
uniform vec4 line;
out vec4 colour;
void main() {
  colour = fill;
  if (hatched > 0.5) {
    float d = mod(at.x + at.y, ${HATCH_PX.toFixed(1)});
    float k = clamp(1.2 - min(d, ${HATCH_PX.toFixed(1)} - d) * 1.414, 0.0, 1.0) * 0.75;
    colour = line * k + colour * (1.0 - k);
  }
}`;

const RECT_NUMBERS = 9;
const ENTRY_NUMBERS = 6;

interface Uploaded {
  vertices: WebGLVertexArrayObject;
  buffer: WebGLBuffer;
  size: number;
}

export class GlPainter implements Painter {
  readonly name = 'webgl2';
  private readonly tileProgram: WebGLProgram;
  private readonly rectProgram: WebGLProgram;
  private readonly tileUniforms: Record<string, WebGLUniformLocation | null> = {};
  private readonly rectUniforms: Record<string, WebGLUniformLocation | null> = {};
  private readonly rectVertices: WebGLVertexArrayObject;
  private readonly rectBuffer: WebGLBuffer;
  private readonly uploaded = new Map<Tile, Uploaded>();
  private rects: number[] = [];
  private width = 1;
  private height = 1;
  private ratio = 1;
  private theme: Theme | null = null;

  /** A painter, or null where there is no WebGL2. */
  static on(canvas: HTMLCanvasElement): GlPainter | null {
    // A canvas that was asked once has no other context any more, so another one is asked first.
    const probe = document.createElement('canvas').getContext('webgl2');
    const emulated = !probe || isEmulated(probe);
    probe?.getExtension('WEBGL_lose_context')?.loseContext();
    if (emulated) return null;
    const gl = canvas.getContext('webgl2', {
      alpha: true,
      antialias: false,
      depth: false,
      premultipliedAlpha: true,
      powerPreference: 'low-power',
    });
    if (!gl || gl.isContextLost()) return null;
    try {
      return new GlPainter(canvas, gl);
    } catch {
      return null;
    }
  }

  private constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly gl: WebGL2RenderingContext,
  ) {
    this.tileProgram = program(gl, TILE_VERTEX, TILE_FRAGMENT);
    this.rectProgram = program(gl, RECT_VERTEX, RECT_FRAGMENT);
    for (const name of ['place', 'how', 'size', 'span', 'ratio', 'open', 'plain', 'fills', 'edges', 'shapes'])
      this.tileUniforms[name] = gl.getUniformLocation(this.tileProgram, name);
    for (const name of ['size', 'line']) this.rectUniforms[name] = gl.getUniformLocation(this.rectProgram, name);
    this.rectVertices = gl.createVertexArray();
    this.rectBuffer = gl.createBuffer();
    gl.bindVertexArray(this.rectVertices);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.rectBuffer);
    instanced(gl, [4, 4, 1]);
    gl.bindVertexArray(null);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  get lost(): boolean {
    return this.gl.isContextLost();
  }

  begin(width: number, height: number, ratio: number, theme: Theme): void {
    const { gl } = this;
    resize(this.canvas, width, height, ratio);
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    if (this.theme !== theme) {
      this.theme = theme;
      gl.useProgram(this.tileProgram);
      gl.uniform4fv(this.tileUniforms['fills'] ?? null, opaque(theme.fillRgb));
      gl.uniform4fv(this.tileUniforms['edges'] ?? null, opaque(theme.edgeRgb));
      gl.uniform1fv(
        this.tileUniforms['shapes'] ?? null,
        Float32Array.from({ length: PALETTE }, (_, i) => SHAPES.indexOf(shapeOf(i))),
      );
      gl.useProgram(this.rectProgram);
      gl.uniform4fv(this.rectUniforms['line'] ?? null, premultiplied(parseColour(theme.loss)));
    }
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.disable(gl.SCISSOR_TEST);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
  }

  rect(x: number, y: number, width: number, height: number, colour: string): void {
    this.rects.push(x, y, width, height, ...premultiplied(parseColour(colour)), 0);
  }

  hatch(x: number, y: number, width: number, height: number): void {
    if (this.theme) this.rects.push(x, y, width, height, ...premultiplied(parseColour(this.theme.lossSoft)), 1);
  }

  bars(tile: Tile, at: Placement): void {
    this.draw(tile, at, false);
  }
  slices(tile: Tile, at: Placement): void {
    this.draw(tile, at, true);
  }

  end(): void {
    this.flush();
  }

  forget(tile: Tile): void {
    const own = this.uploaded.get(tile);
    if (!own) return;
    this.gl.deleteBuffer(own.buffer);
    this.gl.deleteVertexArray(own.vertices);
    this.uploaded.delete(tile);
  }

  private draw(tile: Tile, at: Placement, slices: boolean): void {
    if (tile.size === 0) return;
    this.flush();
    const { gl, tileUniforms: u, ratio } = this;
    const own = this.upload(tile);
    gl.useProgram(this.tileProgram);
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(
      0,
      Math.round((this.height - at.bottom) * ratio),
      this.canvas.width,
      Math.max(0, Math.round((at.bottom - at.top) * ratio)),
    );
    gl.uniform2f(u['size'] ?? null, this.width, this.height);
    gl.uniform1f(u['ratio'] ?? null, ratio);
    gl.uniform1f(u['open'] ?? null, at.openEnd);
    gl.uniform4fv(
      u['plain'] ?? null,
      at.grey && this.theme ? premultiplied(parseColour(this.theme.map)) : [0, 0, 0, 0],
    );
    gl.uniform4f(u['place'] ?? null, at.x, at.bucketPx, at.y, at.height);
    gl.uniform4f(u['how'] ?? null, slices ? at.lanes : 0, at.lanePx, at.peak, at.alpha);
    gl.uniform2f(u['span'] ?? null, at.left, at.right);
    gl.bindVertexArray(own.vertices);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, own.size);
    gl.bindVertexArray(null);
    gl.disable(gl.SCISSOR_TEST);
  }

  private upload(tile: Tile): Uploaded {
    const known = this.uploaded.get(tile);
    if (known) return known;
    const { gl } = this;
    const vertices = gl.createVertexArray();
    const buffer = gl.createBuffer();
    gl.bindVertexArray(vertices);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, entriesOf(tile), gl.STATIC_DRAW);
    instanced(gl, [4, 2]);
    const own = { vertices, buffer, size: tile.size };
    this.uploaded.set(tile, own);
    return own;
  }

  /** Draws the rectangles that were collected. */
  private flush(): void {
    if (this.rects.length === 0) return;
    const { gl } = this;
    gl.useProgram(this.rectProgram);
    gl.uniform2f(this.rectUniforms['size'] ?? null, this.width, this.height);
    gl.bindVertexArray(this.rectVertices);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.rectBuffer);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(this.rects), gl.STREAM_DRAW);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, this.rects.length / RECT_NUMBERS);
    gl.bindVertexArray(null);
    this.rects = [];
  }
}

/** Whether a processor without graphics plays one: then the plain canvas is many times faster. */
function isEmulated(gl: WebGL2RenderingContext): boolean {
  const info = gl.getExtension('WEBGL_debug_renderer_info');
  const name: unknown = info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : gl.getParameter(gl.RENDERER);
  return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(String(name));
}

/** Far begins and ends are cut where no zoom at which the tile is drawn could see them. */
const FAR = TILE_BUCKETS * 4;

function entriesOf(tile: Tile): Float32Array {
  const slices = tile.kind === 'calls' || tile.kind === 'state';
  const out = new Float32Array(tile.size * ENTRY_NUMBERS);
  for (let i = 0, o = 0; i < tile.size; i++, o += ENTRY_NUMBERS) {
    const at = tile.at[i] ?? 0;
    const len = slices ? (tile.len[i] ?? 0) : 1;
    const before = i > 0 ? at - (tile.at[i - 1] ?? 0) : Infinity;
    const behind = i + 1 < tile.size ? (tile.at[i + 1] ?? 0) - at : Infinity;
    out[o] = Math.max(-FAR, at);
    out[o + 1] = len < 0 ? FAR : Math.min(FAR, at + len);
    out[o + 2] = slices ? (tile.depth[i] ?? 0) : Math.log1p(tile.n[i] ?? 1);
    out[o + 3] = tile.colour[i] ?? 0;
    out[o + 4] = Math.min(1e6, before, behind);
    out[o + 5] = !slices ? 0 : len < 0 ? -1 : (tile.n[i] ?? 1) > 1 ? 1 : 0;
  }
  return out;
}

const opaque = (rgb: Float32Array): Float32Array =>
  Float32Array.from({ length: PALETTE * 4 }, (_, i) => (i % 4 === 3 ? 1 : (rgb[(i >> 2) * 3 + (i % 4)] ?? 0)));
const premultiplied = ([r, g, b, a]: [number, number, number, number]): [number, number, number, number] => [
  r * a,
  g * a,
  b * a,
  a,
];

/** Attributes of the bound buffer, one after the other, each once for a rectangle. */
function instanced(gl: WebGL2RenderingContext, sizes: readonly number[]): void {
  const stride = sizes.reduce((sum, size) => sum + size, 0) * 4;
  let offset = 0;
  sizes.forEach((size, location) => {
    gl.enableVertexAttribArray(location);
    gl.vertexAttribPointer(location, size, gl.FLOAT, false, stride, offset);
    gl.vertexAttribDivisor(location, 1);
    offset += size * 4;
  });
}

function program(gl: WebGL2RenderingContext, vertex: string, fragment: string): WebGLProgram {
  const made = gl.createProgram();
  for (const [kind, source] of [
    [gl.VERTEX_SHADER, vertex],
    [gl.FRAGMENT_SHADER, fragment],
  ] as const) {
    const shader = gl.createShader(kind);
    if (!shader) throw new Error('no shader');
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS))
    throw new Error(gl.getProgramInfoLog(made) ?? 'the shaders do not link');
  return made;
}
