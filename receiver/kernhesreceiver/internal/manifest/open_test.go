package manifest

import (
	"strings"
	"testing"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

func TestOpenExamples(t *testing.T) {
	check := func(file, call, kernel string, want Meaning) {
		t.Helper()
		got, wrong := parse(t, load(t, file)).Match("any", []Kernel{{call, kernel}})
		if got[0] != want || wrong != 0 {
			t.Errorf("%s: %s of %s: %+v with %d mismatches, want %+v", file, kernel, call, got[0], wrong, want)
		}
	}
	// As the engines' hooks push them: the text of a Python dict.
	vllm := func(module string) string {
		return "{'Module': 'LlamaForCausalLM." + module + "', 'TrainableParams': {'weight': [4096, 4096]}, 'Inputs': [[8, 4096]]}"
	}
	sglang := func(module string) string { return "{'Module': '" + module + "', 'Inputs': [[8, 4096]]}" }
	check("vllm.json", vllm("model.layers.12.self_attn.attn"), "flash_fwd_kernel", Meaning{Op: "attention", Name: "attention, layer 12"})
	check("vllm.json", vllm("model.layers.12.mlp.down_proj"), "nvjet_tst_64x64", Meaning{Op: "down_proj", Name: "down_proj, layer 12"})
	check("vllm.json", vllm("model.layers.12.post_attention_layernorm"), "fused_add_rms_norm_kernel",
		Meaning{Op: "post_attention_layernorm", Name: "post_attention_layernorm, layer 12"})
	check("vllm.json", vllm("model.layers.3.mlp.experts"), "deep_gemm::sm100_fp8_fp4_mega_moe_impl",
		Meaning{Op: "moe", Name: "MoE experts, layer 3", Known: true, Class: span.Comm, Fused: true})
	check("vllm.json", vllm("model.layers.3.mlp.experts"), "fused_moe_kernel", Meaning{Op: "moe", Name: "MoE experts, layer 3"})
	check("vllm.json", vllm("model.layers.3.mlp.gate"), "nvjet_tst_64x8", Meaning{Op: "router", Name: "router, layer 3", Known: true})
	check("vllm.json", vllm("lm_head"), "nvjet_tst_64x64", Meaning{Op: "lm_head", Name: "logits"})
	check("vllm.json", "sampler", "any", Meaning{Op: "sample", Name: "sampling", Known: true})
	check("sglang.json", sglang("model.layers.7.self_attn.attn_mqa"), "BatchDecode", Meaning{Op: "attention", Name: "attention, layer 7", Known: true})
	check("sglang.json", sglang("model.layers.7.mlp.experts"), "deep_ep::internode_ll::dispatch", Meaning{Op: "moe", Name: "MoE experts, layer 7"})
	check("sglang.json", sglang("model.layers.7.mlp"), "any", Meaning{Op: "mlp", Name: "MLP, layer 7"})
	check("sglang.json", sglang("logits_processor"), "any", Meaning{Op: "lm_head", Name: "logits"})
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
