package kernhesreceiver

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
)

// documented gives the configuration under a heading of docs/engines.md: its first YAML block.
func documented(t *testing.T, heading string) *Config {
	t.Helper()
	page, err := os.ReadFile("../../docs/engines.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## "+heading+"\n")
	require.True(t, ok, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	_, block, ok := strings.Cut(section, "```yaml\n")
	require.True(t, ok, heading)
	block, _, _ = strings.Cut(block, "```")
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(block))
	require.NoError(t, err)
	all, err := retrieved.AsConf()
	require.NoError(t, err)
	sub, err := all.Sub("receivers::kernhes")
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, sub.Unmarshal(cfg))
	require.NoError(t, confmap.Validate(component.Config(cfg)))
	return cfg
}

// TestEngines holds each engine's documented patterns to texts as that engine writes them.
func TestEngines(t *testing.T) {
	check := func(engine, domain, text string, want ranges.Step) {
		t.Helper()
		got, ok := ranges.Parse(documented(t, engine).patterns(), domain, text)
		assert.Equal(t, want.Program != "", ok, text)
		if ok {
			want.Text = text
		}
		assert.Equal(t, want, got, text)
	}
	const trt = "TensorRT-LLM"
	check("TensorRT-LLM", trt, "[Executor] _forward_step 60000: 0 ctx reqs, 0 ctx tokens, 32 gen reqs",
		ranges.Step{Program: "decode", Vars: "seqs=32", Seq: 60000, HasSeq: true, Seqs: 32})
	check("TensorRT-LLM", trt, "[Executor] _forward_step 7: 0 ctx reqs, 32 gen reqs",
		ranges.Step{Program: "decode", Vars: "seqs=32", Seq: 7, HasSeq: true, Seqs: 32})
	check("TensorRT-LLM", trt, "[Executor] _forward_step 8: 2 ctx reqs, 0 gen reqs",
		ranges.Step{Program: "prefill", Vars: "seqs=2", Seq: 8, HasSeq: true, Seqs: 2})
	check("TensorRT-LLM", trt, "[Executor] _forward_step 9: 2 ctx reqs, 1500 ctx tokens, 0 gen reqs",
		ranges.Step{Program: "prefill", Vars: "seqs=2,tokens=1500", Seq: 9, HasSeq: true, Seqs: 2, Tokens: 1500})
	check("TensorRT-LLM", trt, "[Executor] _forward_step 10: 1 ctx reqs, 512 ctx tokens, 31 gen reqs",
		ranges.Step{Program: "mixed", Seq: 10, HasSeq: true})
	check("TensorRT-LLM", trt, "_prepare_tp_inputs", ranges.Step{})
	check("TensorRT-LLM", "", "[Executor] _forward_step 7: 0 ctx reqs, 32 gen reqs", ranges.Step{})

	check("vLLM", "", "execute_context_0(0)_generation_47(47)",
		ranges.Step{Program: "decode", Vars: "seqs=47,tokens=47", Seqs: 47, Tokens: 47})
	check("vLLM", "", "execute_context_2(1024)_generation_0(0)",
		ranges.Step{Program: "prefill", Vars: "seqs=2,tokens=1024", Seqs: 2, Tokens: 1024})
	check("vLLM", "", "execute_context_1(512)_generation_31(31)", ranges.Step{Program: "mixed"})
	check("vLLM", "", "gpu_model_runner: forward", ranges.Step{Program: "forward"})
	check("vLLM", "", "gpu_model_runner: sample", ranges.Step{})
	check("vLLM", "", "{'Module': 'LlamaForCausalLM.model.layers.12.mlp', 'Inputs': [[8, 4096]]}", ranges.Step{})

	check("SGLang", "", "step:decode seqs=8", ranges.Step{Program: "decode", Vars: "seqs=8", Seqs: 8})
	check("SGLang", "", "{'Module': 'model.model.layers.3.self_attn.attn', 'Inputs': [[8, 4096]]}", ranges.Step{})

	for _, engine := range []string{"kern", "Plain PyTorch"} {
		check(engine, "", "step:decode seq=7,seqs=48,tokens=48,kv=96000",
			ranges.Step{Program: "decode", Vars: "seqs=48,tokens=48", Seq: 7, HasSeq: true, Seqs: 48, Tokens: 48, KV: 96000})
		check(engine, "", "decode.layers.0.attention", ranges.Step{})
	}
}
