// Random values that are the same in each run.

export class Random {
  private state: number;
  constructor(seed: number) {
    this.state = seed >>> 0 || 1;
  }

  /** From 0 to below 1. */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), this.state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  below(n: number): number {
    return Math.floor(this.next() * n);
  }
  chance(p: number): boolean {
    return this.next() < p;
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
  /** Any 64-bit number, small ones as often as large ones. */
  big(): bigint {
    const bits = this.below(63) + 1;
    let value = 0n;
    for (let i = 0; i < bits; i++) value = (value << 1n) | BigInt(this.below(2));
    return this.chance(0.1) ? -value : value;
  }
  text(): string {
    const signs = [
      'a',
      'Z',
      '0',
      ' ',
      ',',
      '~',
      '&',
      '=',
      '%',
      '#',
      ':',
      '..',
      '"',
      'µ',
      '千',
      '\u{1f600}',
      'ا',
      '\u202e',
      '<b>',
      '/',
      '\\',
      '+',
    ];
    return Array.from({ length: this.below(8) }, () => this.pick(signs)).join('');
  }
  list<T>(most: number, make: () => T): T[] {
    return Array.from({ length: this.below(most + 1) }, make);
  }
}
