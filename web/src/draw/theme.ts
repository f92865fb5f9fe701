// The colours that are drawn with: those of the style sheet, and eight for names, which are kept apart for normal, protan,
// deutan and tritan sight (distances in OKLab of at least 0.064), for light and dark grounds.

type Oklch = readonly [number, number, number];

const LIGHT: readonly Oklch[] = [
  [0.74, 0.12, 256],
  [0.81, 0.104, 83],
  [0.75, 0.031, 195],
  [0.81, 0.058, 299],
  [0.94, 0.087, 155],
  [0.94, 0.12, 116],
  [0.88, 0.03, 346],
  [0.74, 0.102, 41],
];
const DARK: readonly Oklch[] = [
  [0.55, 0.12, 249],
  [0.55, 0.112, 49],
  [0.43, 0.064, 181],
  [0.36, 0.123, 323],
  [0.46, 0.088, 83],
  [0.48, 0.087, 290],
  [0.34, 0.068, 139],
  [0.55, 0.033, 358],
];

/** Lines and glyphs of the same names: at least 3:1 on the grounds that they are drawn on, and as far apart. */
const LIGHT_EDGES: readonly Oklch[] = [
  [0.436, 0.147, 263],
  [0.546, 0.105, 82],
  [0.43, 0.021, 192],
  [0.539, 0.103, 303],
  [0.596, 0.112, 149],
  [0.62, 0.14, 116],
  [0.631, 0.069, 348],
  [0.449, 0.111, 45],
];
const DARK_EDGES: readonly Oklch[] = [
  [0.708, 0.159, 247],
  [0.772, 0.124, 48],
  [0.605, 0.101, 174],
  [0.571, 0.141, 321],
  [0.632, 0.114, 77],
  [0.671, 0.082, 299],
  [0.544, 0.074, 143],
  [0.724, 0.053, 354],
];

/** States, in the order of `state/states.ts`: areas, and lines around them. */
const LIGHT_STATES: readonly Oklch[] = [
  [0.72, 0.13, 165],
  [0.62, 0.13, 250],
  [0.68, 0.17, 45],
  [0.84, 0.14, 88],
  [0.9, 0.1, 105],
  [0.86, 0.01, 250],
  [0.55, 0.13, 300],
  [0.8, 0, 0],
  [0.78, 0.07, 285],
  [0.9, 0.06, 145],
  [0.64, 0.19, 25],
];
const LIGHT_STATE_EDGES: readonly Oklch[] = [
  [0.5, 0.1, 165],
  [0.42, 0.12, 250],
  [0.48, 0.14, 45],
  [0.56, 0.11, 88],
  [0.6, 0.11, 105],
  [0.6, 0.01, 250],
  [0.38, 0.13, 300],
  [0.58, 0, 0],
  [0.46, 0.12, 285],
  [0.55, 0.11, 145],
  [0.45, 0.17, 25],
];
const DARK_STATES: readonly Oklch[] = [
  [0.55, 0.11, 165],
  [0.5, 0.13, 250],
  [0.48, 0.14, 40],
  [0.56, 0.11, 88],
  [0.4, 0.06, 105],
  [0.5, 0.01, 250],
  [0.38, 0.14, 305],
  [0.45, 0, 0],
  [0.42, 0.09, 285],
  [0.38, 0.06, 145],
  [0.5, 0.17, 25],
];
const DARK_STATE_EDGES: readonly Oklch[] = [
  [0.75, 0.13, 165],
  [0.7, 0.13, 250],
  [0.7, 0.16, 45],
  [0.8, 0.13, 88],
  [0.82, 0.12, 105],
  [0.62, 0.01, 250],
  [0.62, 0.15, 305],
  [0.62, 0, 0],
  [0.68, 0.12, 285],
  [0.78, 0.11, 145],
  [0.72, 0.17, 25],
];

/** Areas and lines of names and of states. */
export const coloursOf = (dark: boolean): { fills: readonly Oklch[]; edges: readonly Oklch[] } =>
  dark
    ? { fills: [...DARK, ...DARK_STATES], edges: [...DARK_EDGES, ...DARK_STATE_EDGES] }
    : { fills: [...LIGHT, ...LIGHT_STATES], edges: [...LIGHT_EDGES, ...LIGHT_STATE_EDGES] };

/** The colour of text on an area. */
export const inkOn = ([lightness]: Oklch): string => (lightness > 0.6 ? '#15181c' : '#ffffff');

export interface Theme {
  readonly dark: boolean;
  readonly bg: string;
  readonly surface: string;
  readonly sunken: string;
  readonly line: string;
  readonly line2: string;
  readonly ink: string;
  readonly ink2: string;
  readonly accent: string;
  readonly accentSoft: string;
  readonly loss: string;
  readonly lossSoft: string;
  readonly hit: string;
  readonly hitFill: string;
  readonly brand: string;
  readonly ui: string;
  readonly map: string;
  readonly veil: string;
  /** Text on each of the areas. */
  readonly onFill: readonly string[];
  readonly onBrand: string;
  /** Areas and lines of names, then of states, as texts and as numbers from 0 to 1. */
  readonly fill: readonly string[];
  readonly edge: readonly string[];
  readonly fillRgb: Float32Array;
  readonly edgeRgb: Float32Array;
}

/** A colour of the style sheet as numbers: one that the system chose has a name alone. */
function resolved(root: HTMLElement, text: string): string {
  if (!/^[a-z]+$/i.test(text)) return text;
  const probe = document.createElement('span');
  probe.style.setProperty('forced-color-adjust', 'none');
  probe.style.color = text;
  root.append(probe);
  const numbers = getComputedStyle(probe).color;
  probe.remove();
  return numbers;
}

/** Puts the colours of names into the style sheet's variables, and reads all others from it. `forced`: the system chose those. */
export function themeOf(root: HTMLElement, chosen: boolean, forced = false): Theme {
  const dark = forced ? isDark(resolved(root, getComputedStyle(root).getPropertyValue('--surface').trim())) : chosen;
  const { fills, edges } = coloursOf(dark);
  const text = ([l, c, h]: Oklch): string => `oklch(${l.toFixed(3)} ${c.toFixed(3)} ${h})`;
  for (const [i, fill] of fills.entries()) root.style.setProperty(`--fill${i}`, text(fill));
  for (const [i, edge] of edges.entries()) root.style.setProperty(`--edge${i}`, text(edge));
  const style = getComputedStyle(root);
  const css = (name: string): string =>
    name === 'ui' ? style.getPropertyValue('--ui').trim() : resolved(root, style.getPropertyValue(`--${name}`).trim());
  return {
    dark,
    bg: css('bg'),
    surface: css('surface'),
    sunken: css('sunken'),
    line: css('line'),
    line2: css('line2'),
    ink: css('ink'),
    ink2: css('ink2'),
    accent: css('accent'),
    accentSoft: css('accent-soft'),
    loss: css('loss'),
    lossSoft: css('loss-soft'),
    hit: css('hit'),
    hitFill: css('hit-fill'),
    brand: css('brand'),
    ui: css('ui'),
    map: dark ? '#5a6472' : '#9aa2ab',
    veil: dark ? 'rgba(10,11,14,.58)' : 'rgba(232,232,227,.72)',
    onFill: fills.map(inkOn),
    onBrand: forced ? css('bg') : dark ? '#15171b' : '#fff',
    fill: fills.map(text),
    edge: edges.map(text),
    fillRgb: numbers(fills),
    edgeRgb: numbers(edges),
  };
}

function isDark(colour: string): boolean {
  const [r, g, b] = parseColour(colour);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.5;
}

const numbers = (colours: readonly Oklch[]): Float32Array => Float32Array.from(colours.flatMap(rgbOf));

/** The sRGB of a colour in OKLCH. */
export function rgbOf([lightness, chroma, hue]: Oklch): number[] {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((c) => Math.min(1, Math.max(0, c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055)));
}

/** The numbers of a colour as the style sheet has it: `#rgb`, `#rrggbb` or `rgb()`, `rgba()`. */
export function parseColour(text: string): [number, number, number, number] {
  const hex = /^#([0-9a-f]{3,8})$/i.exec(text)?.[1];
  if (hex) {
    const full = hex.length <= 4 ? [...hex].map((c) => c + c).join('') : hex;
    const part = (i: number): number => parseInt(full.slice(2 * i, 2 * i + 2), 16) / 255;
    return [part(0), part(1), part(2), full.length === 8 ? part(3) : 1];
  }
  const [r = 0, g = 0, b = 0, a = 1] = (text.match(/[\d.]+/g) ?? []).map(Number);
  return [r / 255, g / 255, b / 255, a];
}
