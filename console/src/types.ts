/** What the gateway's API gives. */

export type Decision = "allow" | "ask" | "deny";

export interface Effect {
  kind: string;
  target: string;
  at_least?: Decision | null;
  verdict?: Decision;
  reason?: string;
  rule?: string;
}

export interface Change {
  path: string;
  kind: "create" | "modify" | "delete" | "move" | string;
  diff: string;
  moved_to?: string | null;
}

/** What was sent to the channel `console` for a session. */
export interface Notice {
  id: string;
  at: number;
  text: string;
  from: string;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  requests: number;
  cost_usd: number | null;
}

export interface Run {
  run: string;
  session: string;
  status: string;
  task: string;
  model: string;
  agent: string;
  workspace: string;
  started: number;
  ended: number;
  owner?: string;
}

export interface RunDetail extends Run {
  answer: string;
  error: string;
  usage?: Usage;
  pending: Approval[];
}

export interface Session {
  session: string;
  last: number;
  status: string;
  task: string;
  runs: number;
  label?: string;
}

export interface Approval {
  approval: string;
  kind: "approval" | "question" | "subagent" | "message" | string;
  run: string;
  session: string;
  task: string;
  call_id: string;
  tool: string;
  effects: Effect[];
  changes: Change[];
  reason: string;
  novel: string[];
  question: string;
  since: number;
  answer: string;
  agent?: string;
  arguments?: Record<string, unknown>;
  /** The policy's answer to each of the effects. */
  verdicts?: { decision: Decision; rule: string; reason: string }[];
  scopes?: string[];
}

/** The policy's answer to one effect, `effect` as text: `write billing.py`. */
export interface Verdict {
  effect: string;
  verdict: Decision;
  rule: string;
  reason: string;
}

export interface Block {
  type: string;
  text?: string;
  [key: string]: unknown;
}

export interface Notes {
  duration_s: number;
  truncated: boolean;
  spill: string | null;
  labels: string[];
  repairs: string[];
  [key: string]: unknown;
}

export interface CallResult {
  call_id: string;
  tool: string;
  content: Block[];
  data: unknown;
  error: { code: string; message: string; hint: string; details?: Record<string, unknown> } | null;
  notes: Notes;
}

/** One event of a run; which fields it has follows from its type. */
export interface RunEvent {
  type: string;
  /** Which of the stored events it is, from 1. */
  number?: number;
  [key: string]: any;
}

export interface UndoEntry {
  entry: string;
  type: string;
  time: number;
  tool: string;
  call: string;
  run: string;
  holds: boolean;
  files: { path: string; kind: string }[];
}

export interface UndoReport {
  applied: boolean;
  entry: string | null;
  changes: Change[];
  kept: string[];
  conflicts: { path: string; reason: string }[];
  missed: string[];
}

export interface Schedule {
  id: string;
  name: string;
  message: string;
  kind: string;
  schedule: string;
  zone: string;
  enabled: boolean;
  next: string[];
  session: string;
  wake: string;
  deliver_to: string;
  check: string;
  workspace: string;
}

export interface ScheduleRun {
  job: string;
  name: string;
  at: string;
  status: string;
  missed: number;
  session: string;
  run: string;
  note: string;
}

export interface Artifact {
  id: string;
  version: number;
  title: string;
  content_type: string;
  update_type: string;
  created_at: number | string;
  bytes: number;
  content?: string;
  diff?: string;
}

export interface Agent {
  id: string;
  session: string;
  run: string;
  agent: string;
  label: string;
  task: string;
  status: string;
  depth: number;
  started: number;
  ended: number;
  answer: string;
  error: string;
  usage: Usage;
  agents: Agent[];
}

export interface ToolUse {
  calls: number;
  failed: number;
  total_s: number;
  median_s: number;
  result_tokens: number;
  schema_tokens: number;
  cost_usd: number | null;
}

export interface UsageReport {
  runs: number;
  models: Record<string, Usage>;
  days: Record<string, Usage>;
  sessions: Record<string, Usage>;
  tools: Record<string, ToolUse>;
}

export interface Grant {
  id: string;
  rule: string;
  scope: string;
  session: string;
  expires: number | null;
  uses: number | null;
}

export interface Policy {
  mode: string;
  rules: { text: string; source: string }[];
  grants: Grant[];
}

export interface Explained {
  effects: Effect[];
  verdicts: Verdict[];
  decision: Decision;
  rule: string;
  reason: string;
}

export interface Server {
  name: string;
  status: string;
  transport: string;
  runs: string;
  source: string;
  tools: string[];
  pinned: string[];
  changed: { tool: string; diff: string }[];
  warnings: string[];
  error: string;
}

export interface Tool {
  name: string;
  description: string;
  parameters: { properties?: Record<string, { type?: string; description?: string }>; required?: string[] };
  effects: string[];
}

export interface Config {
  hash: string;
  file: string;
  values: Record<string, { value: unknown; file: string }>;
}
