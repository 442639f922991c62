package ranges

import (
	"maps"
	"regexp"
	"slices"
)

// Presets are patterns for engines as they write their texts, by the engine's name. An iteration without a sequence is no step.
var presets = map[string][]Pattern{
	"kernhes": Default,

	// annotate_profile of vllm/v1/worker/gpu_worker.py, as NVTX ranges and as profiler annotations. Its forms are, from the
	// newest: with the lengths of queries and keys (sq, sk) and sums of their products; with tokens and the sum of their
	// squares; with tokens; with numbers of requests alone.
	"vllm": of(
		`^execute_\d+_context_(?P<seqs>[1-9]\d*)\(sq(?P<tokens>\d+)sk(?P<kv>\d+)sqsq\d+sqsk\d+\)_generation_0\(`, "prefill",
		`^execute_\d+_context_0\([^)]*\)_generation_(?P<seqs>[1-9]\d*)\(sq(?P<tokens>\d+)sk(?P<kv>\d+)sqsq\d+sqsk\d+\)`, "decode",
		`^execute_\d+_context_(?P<seqs>[1-9]\d*)\(sq(?P<tokens>\d+)sk(?P<kv>\d+)sqsq\d+sqsk\d+\)_generation_(?P<seqs>[1-9]\d*)\(sq(?P<tokens>\d+)sk(?P<kv>\d+)sqsq\d+sqsk\d+\)`, "mixed",
		`^execute_context_(?P<seqs>[1-9]\d*)\((?P<tokens>\d+)(?:_\d+)?\)_generation_0\(`, "prefill",
		`^execute_context_0\([^)]*\)_generation_(?P<seqs>[1-9]\d*)\((?P<tokens>\d+)(?:_\d+)?\)`, "decode",
		`^execute_context_(?P<seqs>[1-9]\d*)\((?P<tokens>\d+)(?:_\d+)?\)_generation_(?P<seqs>[1-9]\d*)\((?P<tokens>\d+)(?:_\d+)?\)`, "mixed",
		`^execute_new_(?P<seqs>[1-9]\d*)_cached_0\b`, "prefill",
		`^execute_new_0_cached_(?P<seqs>[1-9]\d*)\b`, "decode",
		`^execute_new_(?P<seqs>[1-9]\d*)_cached_(?P<seqs>[1-9]\d*)\b`, "mixed",
	).fallback(`^gpu_model_runner: (?P<program>forward)$`, ""),

	// The annotation of a forward pass, and SGLANG_ENABLE_NVTX_SCHEDULER=1, which gives one range an iteration.
	"sglang": of(
		`^step\[DECODE bs=(?P<seqs>(?P<tokens>[1-9]\d*))\b`, "decode",
		`^step\[(?:EXTEND|SPLIT_PREFILL|DLLM_EXTEND) bs=(?P<seqs>[1-9]\d*)(?: toks=(?P<tokens>\d+))?`, "prefill",
		`^step\[MIXED bs=(?P<seqs>[1-9]\d*)(?: toks=(?P<tokens>\d+))?`, "mixed",
		`^step\[TARGET_VERIFY bs=(?P<seqs>[1-9]\d*)(?: toks=(?P<tokens>\d+))?`, "verify",
		`^step\[DRAFT_EXTEND\w* bs=(?P<seqs>[1-9]\d*)(?: toks=(?P<tokens>\d+))?`, "draft",
	).fallback(`^scheduler\.run_batch$`, "batch"),

	// PyExecutor._forward_step of the PyTorch backend.
	"tensorrt-llm": of(
		`^\[Executor\] _forward_step (?P<seq>\d+): 0 ctx reqs, (?:0 ctx tokens, )?(?P<seqs>[1-9]\d*) gen reqs`, "decode",
		`^\[Executor\] _forward_step (?P<seq>\d+): (?P<seqs>[1-9]\d*) ctx reqs, (?:(?P<tokens>\d+) ctx tokens, )?0 gen reqs`, "prefill",
		`^\[Executor\] _forward_step (?P<seq>\d+): (?P<seqs>[1-9]\d*) ctx reqs, (?:\d+ ctx tokens, )?(?P<seqs>[1-9]\d*) gen reqs`, "mixed",
	),
}

type preset []Pattern

// of makes a preset of expressions, each with its program. Texts of engines are unlike all others, so their domain does not matter.
func of(pairs ...string) (p preset) {
	for i := 0; i < len(pairs); i += 2 {
		p = append(p, Pattern{Match: regexp.MustCompile(pairs[i]), Program: pairs[i+1], AnyDomain: true})
	}
	return p
}

// fallback appends a fallback pattern.
func (p preset) fallback(match, program string) preset {
	return append(p, Pattern{Match: regexp.MustCompile(match), Program: program, AnyDomain: true, Fallback: true})
}

// Preset is the patterns of an engine; false: there is no such preset.
func Preset(name string) ([]Pattern, bool) {
	p, ok := presets[name]
	return p, ok
}

// PresetNames are the names of all presets, in order.
func PresetNames() []string { return slices.Sorted(maps.Keys(presets)) }

// PresetFor is the name of a preset that has a step of a text, or "".
func PresetFor(text string) string {
	for _, name := range PresetNames() {
		for i := range presets[name] {
			if _, ok := presets[name][i].parse(text); ok {
				return name
			}
		}
	}
	return ""
}
