package manifest

import (
	"strings"
	"testing"
)

func TestOpenExamples(t *testing.T) {
	check := func(file, call, kernel string, want Meaning) {
		t.Helper()
		got, wrong := parse(t, load(t, file)).Match("any", []Kernel{{call, kernel}})
		if got[0] != want || wrong != 0 {
			t.Errorf("%s: %s of %s: %+v with %d mismatches, want %+v", file, kernel, call, got[0], wrong, want)
		}
	}
	comm := func(op, name string, fused bool) Meaning { return Meaning{op, name, true, 1, fused} }
	check("vllm.json", "model.layers.12.self_attn.attn", "flash_fwd_kernel", Meaning{"attention", "attention, layer 12", true, 0, false})
	check("vllm.json", "model.layers.12.mlp.down_proj", "nvjet_tst_64x64", Meaning{"down_proj", "down_proj, layer 12", false, 0, false})
	check("vllm.json", "model.layers.3.mlp.experts", "sm100_fp8_fp4_mega_moe_impl", comm("moe", "MoE experts, layer 3", true))
	check("vllm.json", "model.layers.3.mlp.experts", "fused_moe_kernel", Meaning{"moe", "MoE experts, layer 3", false, 0, false})
	check("vllm.json", "lm_head", "nvjet_tst_64x64", Meaning{"lm_head", "logits", true, 0, false})
	check("sglang.json", "layers.7.self_attn", "BatchDecodeWithPagedKVCacheKernel", Meaning{"attention", "attention, layer 7", true, 0, false})
	check("sglang.json", "layers.7.mlp.experts", "deep_ep::internode_ll::dispatch", Meaning{"moe", "MoE experts, layer 7", false, 0, false})
	check("sglang.json", "layer_communicator", "any", comm("allreduce", "all-reduce between layers", false))
}

func TestOpenMismatch(t *testing.T) {
	m := parse(t, []byte(`{"kernhes_manifest": 1, "calls": [{"label": "a", "kernel": "gemm", "op": "x"}, {"pattern": "^b(.)$", "op": "$1$1", "class": "spin"}]}`))
	got, wrong := m.Match("p", []Kernel{{"a", "gemm"}, {"a", "other"}, {"bz", "k"}, {"c", "k"}, {"", "k"}})
	if classes(got) != "--s--" || got[0].Op != "x" || got[1].Op != "" || got[2].Op != "zz" || wrong != 1 {
		t.Errorf("got %+v with %d mismatches", got, wrong)
	}
}

func TestOpenRefuses(t *testing.T) {
	check := func(body, want string) {
		t.Helper()
		if _, err := Parse([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	check(`{"kernhes_manifest": 2, "calls": []}`, `kernhes_manifest: "2": this reads 1`)
	check(`{"kernhes_manifest": 1}`, `manifest: key "calls" is missing`)
	check(`{"kernhes_manifest": 1, "calls": [{"op": "x"}]}`, `calls[0]: want either label or pattern`)
	check(`{"kernhes_manifest": 1, "calls": [{"label": "a", "pattern": "b"}]}`, `calls[0]: want either label or pattern`)
	check(`{"kernhes_manifest": 1, "calls": [{"label": "a"}, {"pattern": "("}]}`, `calls[1].pattern: error parsing regexp`)
	check(`{"kernhes_manifest": 1, "calls": [{"label": "a", "kernel": "*"}]}`, `calls[0].kernel: error parsing regexp`)
	check(`{"kernhes_manifest": 1, "calls": [{"label": "a", "class": "gemm"}]}`, `calls[0].class: "gemm", want compute`)
	check(`{"kernhes_manifest": 1, "calls": [{"label": "a", "name": 3}]}`, `calls[0].name: is a number, want a string`)
	check(`{"kernhes_manifest": 1, "calls": [{"label": "a", "nmae": "x"}]}`, `calls[0]: unknown key "nmae"`)
	check(`{"kernhes_manifest": 1, "calls": [`+strings.TrimSuffix(strings.Repeat(`{"label": "a"},`, 5000), ",")+`]}`, `calls: 5000 rules, at most 4096`)
}

// What is taken can be asked anything.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"toy-moe-ep2.json", "vllm.json", "sglang.json"} {
		f.Add(load(f, name))
	}
	kernels := []Kernel{{"", "hold"}, {"prefill.target.gather", "ncclDevKernel_AllGather"}, {"model.layers.1.self_attn.attn", "\xff"}, {"", "embed_rows"}}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := Parse(body)
		if err != nil {
			return
		}
		programs := []string{"prefill", "decode_batch", ""}
		for name := range m.programs {
			programs = append(programs, name)
		}
		for _, program := range programs {
			for n := range kernels {
				meanings, wrong := m.Match(program, kernels[:n])
				if len(meanings) != n || wrong < 0 {
					t.Fatalf("%d kernels: %d meanings, %d mismatches", n, len(meanings), wrong)
				}
			}
		}
	})
}
