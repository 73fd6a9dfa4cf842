/** Keys: letters work outside inputs, and can be turned off in the settings (WCAG 2.1.4). */

import { useEffect, useRef } from "react";

const OFF = "pegboard.keys";
export const lettersOn = () => localStorage.getItem(OFF) !== "off";
export const setLetters = (on: boolean) => localStorage.setItem(OFF, on ? "on" : "off");

const inInput = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/**
 * Acts on keys while the component is in the page.
 *
 * @param keys by key: a letter, `Escape`, `mod+k`, or two letters in a row as `g c`. What returns false lets the key be.
 */
export function useKeys(keys: Record<string, () => unknown>) {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    let first = "";
    const press = (event: KeyboardEvent) => {
      if (event.isComposing || event.defaultPrevented) return;
      const mod = event.metaKey || event.ctrlKey;
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      if (mod || event.altKey) return act(event, event.altKey ? "" : `mod+${key}`);
      const letter = event.key.length === 1;
      if (letter && (inInput(event.target) || !lettersOn())) return;
      if (document.querySelector("dialog[open]")) return;
      const pair = `${first} ${key}`;
      first = "";
      if (current.current[pair]) return act(event, pair);
      if (Object.keys(current.current).some((name) => name.startsWith(`${key} `))) first = key;
      act(event, key);
    };
    const act = (event: KeyboardEvent, name: string) => {
      const run = current.current[name];
      if (run && run() !== false) event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
