package manifest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

func load(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func parse(t testing.TB, body []byte) *Manifest {
	t.Helper()
	m, err := Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func toy(t testing.TB) *Manifest { return parse(t, load(t, "toy-moe-ep2.json")) }

// classes writes the classes of meanings, a letter each: c compute, m comm, f fused, s spin, - not known.
func classes(meanings []Meaning) string {
	var b strings.Builder
	for _, m := range meanings {
		switch {
		case !m.Known:
			b.WriteByte('-')
		case m.Fused:
			b.WriteByte('f')
		default:
			b.WriteByte("cm?s"[m.Class])
		}
	}
	return b.String()
}

func TestExample(t *testing.T) {
	body := load(t, "toy-moe-ep2.json")
	m := parse(t, body)
	if m.Model != "toy-moe-ep2" || m.Version != fmt.Sprintf("%x", sha256.Sum256(body)) || m.Programs() != 2 {
		t.Errorf("got %q, version %s, %d programs", m.Model, m.Version, m.Programs())
	}
	check := func(program, want string) {
		t.Helper()
		// Kernels of no label and a name that says nothing: as many as launches meet them in order.
		got, mismatches := m.Match(program, make([]Kernel, len(want)))
		if classes(got) != want || mismatches != 0 {
			t.Errorf("%s: %s with %d mismatches, want %s", program, classes(got), mismatches, want)
		}
	}
	check("prefill", "cccccfm")
	check("decode_batch", "cccccfccc")
}

func TestMatch(t *testing.T) {
	m := toy(t)
	p := "prefill.target."
	check := func(what, program string, kernels []Kernel, want string, wrong int) {
		t.Helper()
		got, mismatches := m.Match(program, kernels)
		if classes(got) != want || mismatches != wrong {
			t.Errorf("%s: %s with %d mismatches, want %s with %d", what, classes(got), mismatches, want, wrong)
		}
	}
	attention := Kernel{p + "attention.layers.0.attention", "paged_attn"}
	reduce := Kernel{p + "attention.layers.0.attention", "reduce_segments"}
	gemm := Kernel{p + "attention.layers.0.wqkv", "nvjet_tst_64x64"}
	split := Kernel{p + "attention.layers.0.wqkv", "void cublasLt::splitKreduce_kernel<32, 16>(float*)"}
	experts := Kernel{p + "moe.layers.0.experts", "mega_moe_e64_r2"}
	gather := Kernel{p + "gather", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"}

	check("by label, in any order of calls", "prefill", []Kernel{gather, experts, attention, reduce, gemm}, "mfccc", 0)
	check("a product of two kernels", "prefill", []Kernel{gemm, split, experts}, "ccf", 0)
	check("a launch without its kernel", "prefill", []Kernel{reduce, experts}, "cf", 1)
	check("a kernel too many is of its call all the same", "prefill", []Kernel{experts, experts}, "ff", 1)
	check("an unknown label", "prefill", []Kernel{{"nowhere", "x"}, experts}, "-f", 1)
	check("kernels of the engine itself", "prefill", []Kernel{{"", "hold"}, experts, {"", "flag"}}, "-f-", 0)
	check("an unknown program", "commit", []Kernel{experts, gemm}, "--", 2)
	check("no kernel", "prefill", nil, "", 7-1) // the gather may make none

	names := func(list ...string) (kernels []Kernel) {
		for _, name := range list {
			kernels = append(kernels, Kernel{Name: name})
		}
		return kernels
	}
	check("in order, with a split product", "prefill",
		names("embed_rows", "nvjet", split.Name, "paged_attn", "reduce_segments", "gate_topk", "mega_moe_e64_r2", gather.Name), "ccccccfm", 0)
	check("in order, the gather made none", "prefill",
		names("embed_rows", "nvjet", "paged_attn", "reduce_segments", "gate_topk", "mega_moe_e64_r2"), "cccccf", 0)
	check("in order, with one of the engine's", "decode_batch",
		names("hold", "embed_rows", "nvjet", "paged_attn", "reduce_segments", "gate_topk", "mega_moe_e64_r2", "nvjet", "argmax_partial", "argmax_final"),
		"-cccccfccc", 1)
	check("in order, one kernel for another", "prefill",
		names("embed_rows", "nvjet", "paged_attn", "gate_topk", "reduce_segments", "mega_moe_e64_r2", gather.Name), "cccc-fm", 2)

	got, _ := m.Match("prefill", []Kernel{experts})
	if got[0].Op != "mega_moe.1a2b3c4d" || got[0].Name != "mega_moe" || got[0].Class != span.Comm {
		t.Errorf("experts are %+v", got[0])
	}
}

// TestAlignmentOverSkippedLaunches: kernels without labels find their launch when up to 63 before it made none.
func TestAlignmentOverSkippedLaunches(t *testing.T) {
	const launches = 70
	var ops, calls []string
	for i := range launches {
		ops = append(ops, fmt.Sprintf(`"o%d":{"params":[],"impl":{"launches":[{"module":"m","entry":"k%d","block":[1,1,1],"grid":[1,1,1]}]}}`, i, i))
		calls = append(calls, fmt.Sprintf(`{"op":"o%d","args":[]}`, i))
	}
	m := parse(t, []byte(`{"schema_version":5,"model":"m","buffers":{},"modules":{"m":{"sha256":"`+strings.Repeat("0", 64)+`","source":"m.cubin"}},"ops":{`+
		strings.Join(ops, ",")+`},"programs":{"p":{"calls":[`+strings.Join(calls, ",")+`]}}}`))
	check := func(skipped int, want string) {
		t.Helper()
		at := 1 + skipped
		got, wrong := m.Match("p", []Kernel{{Name: "k0"}, {Name: fmt.Sprint("k", at)}})
		// The first kernel met its launch; a launch without a kernel is a mismatch, and so is a kernel without a launch.
		mismatches := launches - 2
		if want == "" {
			mismatches = launches
		}
		if got[0].Op != "o0" || got[1].Op != want || wrong != mismatches {
			t.Errorf("%d launches skipped: %q and %q with %d mismatches, want o0 and %q with %d", skipped, got[0].Op, got[1].Op, wrong, want, mismatches)
		}
	}
	check(0, "o1")
	check(7, "o8")
	check(8, "o9")
	check(63, "o64")
	check(64, "")
}

// A call that launches one kernel on peers and one on its own has one of each.
func TestClassIsOfTheLaunch(t *testing.T) {
	body := bytes.Replace(load(t, "toy-moe-ep2.json"), []byte(`"args": [{"scratch": "pmax"}, {"param": 1}]`),
		[]byte(`"args": [{"scratch": "pmax"}, {"pack": {"size": 16, "fields": [{"at": 0, "tensormap": {"param": 1}}]}}]`), 1)
	body = bytes.Replace(body, []byte(`{"buf": "next_token"}`), []byte(`{"buf": "slab_peers"}`), 1)
	label := "decode.target_head.sample"
	got, wrong := parse(t, body).Match("decode_batch", []Kernel{{label, "argmax_partial"}, {label, "argmax_final"}, {label, "stray"}})
	if classes(got) != "cf-" || got[2].Op != "argmax" || wrong != 1 {
		t.Errorf("got %s, stray of %q, %d mismatches", classes(got), got[2].Op, wrong)
	}
}

// A label is a call's choice: kernels without one meet the calls without one.
func TestCallsWithoutLabels(t *testing.T) {
	body := bytes.Replace(load(t, "toy-moe-ep2.json"), []byte(`"label": "prefill.target.moe.layers.0.experts", `), nil, 1)
	got, wrong := parse(t, body).Match("prefill", []Kernel{{"", "hold"}, {"prefill.target.embed", "embed_rows"}, {"", "mega_moe_e64_r2"}})
	if classes(got) != "-cf" || wrong != 1 {
		t.Errorf("got %s with %d mismatches", classes(got), wrong)
	}
}

func TestKernMutations(t *testing.T) {
	good := string(load(t, "toy-moe-ep2.json"))
	check := func(old, changed, want string) {
		t.Helper()
		body := strings.Replace(good, old, changed, 1)
		if body == good {
			t.Fatalf("%q is not in the example", old)
		}
		m, err := Parse([]byte(body))
		if err == nil || m != nil {
			t.Errorf("%q for %q was taken", changed, old)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q for %q: %v\nwant %s", changed, old, err, want)
		}
	}
	check(`"schema_version": 5`, `"schema_version": 4`, `schema_version: "4": this reads 5`)
	check(`"schema_version": 5`, `"schema_version": "5.0"`, `schema_version: "5.0"`)
	check(`"model"`, `"name"`, `manifest: unknown key "name"`)
	check(`"label": "prefill.target.gather"`, `"Label": "prefill.target.gather"`, `programs.prefill.calls[5]: unknown key "Label"`)
	check(`"op": "gate"`, `"op": "gate2"`, `programs.prefill.calls[3].op: no op "gate2"`)
	check(`"op": "gate", `, ``, `programs.prefill.calls[3]: key "op" is missing`)
	check(`{"buf": "part"}, {"buf": "slab", "offset": 4096}, {"var": "tokens"}`, `{"buf": "part"}`,
		`programs.prefill.calls[3].args: 1 arguments for 3 parameters of op "gate"`)
	check(`"QKV": 1536, `, ``, `buffers.qkv.shape[1]: no constant "QKV"`)
	check(`{"i32": "HIDDEN"}`, `{"i32": "HIDDEN2"}`, `programs.prefill.calls[1].args[5].i32: no constant "HIDDEN2"`)
	check(`"QKV": 1536`, `"QKV": "1536"`, `constants.QKV: is a string, want a number`)
	check(`"HIDDEN": 1024`, `"hidden": 1024`, `constants.hidden: constants are written in UPPER_SNAKE`)
	check(`"max": "MAX_SEQS"`, `"max": "SEQS"`, `vars.seqs.max: no constant "SEQS"`)
	check(`"kind": "peer"`, `"kind": "peers"`, `buffers.slab_peers.kind: no kind "peers"`)
	check(`"of": "slab"`, `"of": "slob"`, `buffers.slab_peers.of: no buffer or state "slob"`)
	check(`"of": "slab", `, ``, `buffers.slab_peers: a peer buffer needs of and group`)
	check(`"kind": "peer", "of": "slab", "group": "ep"`, `"kind": "peer", "of": "slab", "group": "tp"`, `buffers.slab_peers.group: no group "tp"`)
	check(`"dtype": "f32", "shape": ["seqs", "VOCAB"]`, `"dtype": "f33", "shape": ["seqs", "VOCAB"]`, `buffers.logits.dtype: no dtype "f33"`)
	check(`{"buf": "slab_peers"}`, `{"buf": "slab_peer"}`, `programs.prefill.calls[4].args[2].buf: no buffer "slab_peer"`)
	check(`{"state": "kv"}`, `{"state": "vk"}`, `programs.prefill.calls[2].args[1].state: no state "vk"`)
	check(`{"rank": "ep"}`, `{"rank": "pp"}`, `ops.gather.impl.launches[0].args[3].rank: no group "pp"`)
	check(`{"var": "tokens"}`, `{"var": "token"}`, `programs.prefill.calls[1].args[3].var: no var "token"`)
	check(`{"var": "tokens"}`, `{"var": "tokens", "i32": 1}`, `programs.prefill.calls[1].args[3]: want one source, got 2`)
	check(`{"mul": ["tokens", 1024]}`, `{"div": ["tokens", 1024]}`, `programs.prefill.calls[5].args[2].expr: is no expression`)
	check(`"module": "attn", "entry": "paged_attn"`, `"module": "atten", "entry": "paged_attn"`, `ops.attn.impl.launches[0].module: no module "atten"`)
	for range 20 { // of several keys that are missing, the first in order
		check(`"module": "attn", "entry": "paged_attn", `, ``, `ops.attn.impl.launches[0]: key "entry" is missing`)
	}
	check(`"entry": "paged_attn", `, ``, `ops.attn.impl.launches[0]: key "entry" is missing`)
	check(`extern:nccl_allgather_bf16`, `extern:nccl_broadcast_bf16`, `ops.gather.impl.launches[0].entry: no built-in "extern:nccl_broadcast_bf16"`)
	check(`{"entry": "extern:cublaslt_bf16_tn"}`, `{"entry": "extern:cublaslt_bf16_tn", "block": [1,1,1]}`, `unknown key "block"`)
	check(`{"scratch": "seg"}, {"param": 6}`, `{"scratch": "sog"}, {"param": 6}`, `ops.attn.impl.launches[1].args[0].scratch: no scratch "sog"`)
	check(`{"scratch": "seg"}, {"param": 6}`, `{"scratch": "seg"}, {"param": 7}`, `ops.attn.impl.launches[1].args[1].param: parameter "7", there are 7`)
	check(`{"scratch": "seg"}, {"param": 6}`, `{"scratch": "seg"}`, `ops.attn.impl.launches[1].args: 1 arguments for 2 parameters`)
	check(`"tensormap": {"param": 4,`, `"tensormap": {"parm": 4,`, `fields[0].tensormap: key "param" is missing`)
	check(`{"at": 0, "tensormap"`, `{"tensormap"`, `fields[0]: want at and one source`)
	check(`"block": [256, 1, 1]`, `"block": [256, 1]`, `ops.embed.impl.launches[0].block: want three numbers`)
	check(`"params": ["in buffer<i64>", "in buffer<bf16>", "out buffer<bf16>"]`, `"params": ["in bufer<i64>"]`, `ops.embed.params[0]: "in bufer<i64>" is no parameter`)
	check(`000001"`, `00001"`, `modules.basic.sha256`)
	check(`"graph": true, `, `"graf": true, `, `programs.decode_batch: unknown key "graf"`)
	check(`"rows": "tokens"`, `"rows": "tokes"`, `programs.prefill.batch.rows: no constant "tokes"`)
	check(`"states": {"kv"`, `"states": {"kv": {"bytes": 1}, "kv"`, `states: key "kv" is empty, too long or there twice`)
	check(`"launches": [{"module": "basic", "entry": "embed_rows", "block": [256, 1, 1], "grid": ["tokens", 1, 1]}]`, `"launches": []`,
		`ops.embed.impl.launches: is empty`)
	check(`"bind": [{"tensor"`, `"bind": [{"tensr"`, `buffers.embed.weight.bind[0]: unknown key "tensr"`)
	check("}\n}\n", "}\n", `manifest at byte`)
}

func TestKernNewestKeys(t *testing.T) {
	body := string(load(t, "toy-moe-ep2.json"))
	for old, changed := range map[string]string{
		`"topology": {`: `"cut": {"id": "a", "stage": 0, "stages": 2}, "topology": {"replicated_rows": true, `,
		`"grid": ["tokens", 8, 1]`: `"grid": [{"ceil_div": [{"mul": ["tokens", 2]}, "MAX_SEQS"]}, 8, 1],
			"when": {"var": "tokens", "min": 1, "max": "MAX_SEQS"}`,
		`"fill": "slot"`:            `"fill": "slot", "placement": "host"`,
		`{"tensor": "l0.q"}`:        `{"tensor": {"group": "ep", "tensors": ["a", "b"]}, "rows": [0, 1], "interleave": 2}`,
		`"graph": true`:             `"graph": true, "once": false, "derive": {"any": ["thing"]}`,
		`{"bytes_per_token": 4096}`: `{"host": {"bytes": 1}}`,
	} {
		if !strings.Contains(body, old) {
			t.Fatalf("%q is not in the example", old)
		}
		body = strings.Replace(body, old, changed, 1)
	}
	m := parse(t, []byte(body))
	// The attention that "when" left out is no mismatch.
	got, wrong := m.Match("prefill", []Kernel{{"prefill.target.attention.layers.0.attention", "reduce_segments"}})
	if classes(got) != "c" || wrong != 0 {
		t.Errorf("got %s with %d mismatches", classes(got), wrong)
	}
}

func TestBounds(t *testing.T) {
	many := func(n int) string {
		return `{"schema_version":5,"model":"m","buffers":{},"modules":{},"ops":{"o":{"params":[],"impl":{"launches":[{"entry":"extern:nccl_allreduce_f32"}]}}},` +
			`"programs":{"p":{"calls":[` + strings.TrimSuffix(strings.Repeat(`{"op":"o","args":[]},`, n), ",") + `]}}}`
	}
	parse(t, []byte(many(1000)))
	for body, want := range map[string]string{
		many(1_000_000):                             "manifest: 21000",
		"[" + strings.Repeat("1,", 1_000_000):       "more than 1000000 values",
		many(140_000):                               "programs.p.calls: more than 131072 calls",
		strings.Repeat("[", 100000):                 "nested deeper than 64",
		`{"a":"` + strings.Repeat("x", 5000):        "ends too early",
		`{"a":"` + strings.Repeat("x", 5000) + `"}`: "a string of 5000 bytes",
		"\xff":                "is not UTF-8",
		"":                    "ends too early",
		"[]":                  "is an array, want an object",
		"{} {}":               "more than one JSON value",
		`{"a":1,"a":2}`:       "there twice",
		"{\"\x01\\u0007\":1}": "invalid character",
	} {
		_, err := Parse([]byte(body))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", body, err, want)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%.40q: an error of %d bytes", body, len(err.Error()))
		}
	}
}
