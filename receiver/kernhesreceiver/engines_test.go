package kernhesreceiver

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
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
		got, _, ok := ranges.Parse(documented(t, engine).patterns(), domain, text)
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
		ranges.Step{Program: "mixed", Vars: "seqs=32", Seq: 10, HasSeq: true, Seqs: 32})
	check("TensorRT-LLM", trt, "[Executor] _forward_step 11: 0 ctx reqs, 0 ctx tokens, 0 gen reqs", ranges.Step{})
	check("TensorRT-LLM", trt, "[Executor] _forward_step 12: 0 ctx reqs, 0 gen reqs", ranges.Step{})
	check("TensorRT-LLM", trt, "_prepare_tp_inputs", ranges.Step{})
	check("TensorRT-LLM", "", "[Executor] _forward_step 7: 0 ctx reqs, 32 gen reqs",
		ranges.Step{Program: "decode", Vars: "seqs=32", Seq: 7, HasSeq: true, Seqs: 32})

	check("vLLM", "", "execute_context_0(0)_generation_47(47)",
		ranges.Step{Program: "decode", Vars: "seqs=47,tokens=47", Seqs: 47, Tokens: 47})
	check("vLLM", "", "execute_context_2(1024)_generation_0(0)",
		ranges.Step{Program: "prefill", Vars: "seqs=2,tokens=1024", Seqs: 2, Tokens: 1024})
	check("vLLM", "", "execute_context_1(512)_generation_31(31)",
		ranges.Step{Program: "mixed", Vars: "seqs=32,tokens=543", Seqs: 32, Tokens: 543})
	check("vLLM", "", "execute_context_1(888_788544)_generation_0(0)",
		ranges.Step{Program: "prefill", Vars: "seqs=1,tokens=888", Seqs: 1, Tokens: 888})
	check("vLLM", "", "execute_context_0(0)_generation_0(0)", ranges.Step{})
	check("vLLM", "", "execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)", ranges.Step{})
	check("vLLM", "", "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)",
		ranges.Step{Program: "decode", Vars: "seqs=32,tokens=32", Seqs: 32, Tokens: 32, KV: 32785})
	check("vLLM", "python", "execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk30sqsq2sqsk30)",
		ranges.Step{Program: "decode", Vars: "seqs=2,tokens=2", Seqs: 2, Tokens: 2, KV: 30})
	check("vLLM", "", "execute_888_context_1(sq888sk888sqsq788544sqsk788544)_generation_0(sq0sk0sqsq0sqsk0)",
		ranges.Step{Program: "prefill", Vars: "seqs=1,tokens=888", Seqs: 1, Tokens: 888, KV: 888})
	check("vLLM", "", "execute_90_context_1(sq88sk100sqsq7744sqsk8800)_generation_2(sq2sk30sqsq2sqsk30), seq = 5",
		ranges.Step{Program: "mixed", Vars: "seqs=3,tokens=90", Seqs: 3, Tokens: 90, KV: 130})
	check("vLLM", "", "execute_new_1_cached_7", ranges.Step{Program: "mixed", Vars: "seqs=8", Seqs: 8})
	check("vLLM", "", "execute_new_0_cached_7", ranges.Step{Program: "decode", Vars: "seqs=7", Seqs: 7})
	check("vLLM", "", "execute_new_3_cached_0", ranges.Step{Program: "prefill", Vars: "seqs=3", Seqs: 3})
	check("vLLM", "", "execute_new_0_cached_0", ranges.Step{})
	check("vLLM", "", "gpu_model_runner: forward", ranges.Step{Program: "forward"})
	check("vLLM", "", "gpu_model_runner: sample", ranges.Step{})
	check("vLLM", "", "{'Module': 'LlamaForCausalLM.model.layers.12.mlp', 'Inputs': [[8, 4096]]}", ranges.Step{})

	check("SGLang", "", "step[DECODE bs=32]", ranges.Step{Program: "decode", Vars: "seqs=32,tokens=32", Seqs: 32, Tokens: 32})
	check("SGLang", "", "step[EXTEND bs=15 toks=15360]",
		ranges.Step{Program: "prefill", Vars: "seqs=15,tokens=15360", Seqs: 15, Tokens: 15360})
	check("SGLang", "", "step[MIXED bs=2]", ranges.Step{Program: "mixed", Vars: "seqs=2", Seqs: 2})
	check("SGLang", "", "step[TARGET_VERIFY bs=4]", ranges.Step{Program: "verify", Vars: "seqs=4", Seqs: 4})
	check("SGLang", "", "step[IDLE bs=0]", ranges.Step{})
	check("SGLang", "", "step[DECODE bs=0]", ranges.Step{})
	check("SGLang", "sglang", "scheduler.run_batch", ranges.Step{Program: "batch"})
	check("SGLang", "", "scheduler.process_batch_result", ranges.Step{})
	check("SGLang", "", "scheduler.run_batch_prebuilt", ranges.Step{})
	check("SGLang", "", "step:decode seqs=8", ranges.Step{Program: "decode", Vars: "seqs=8", Seqs: 8})
	check("SGLang", "", "{'Module': 'model.model.layers.3.self_attn.attn', 'Inputs': [[8, 4096]]}", ranges.Step{})

	for _, engine := range []string{"kern", "Plain PyTorch"} {
		// As the hooks of vLLM and SGLang write them, for which no pattern is set either.
		check(engine, "", "step:mixed seq=2,seqs=2,tokens=101,kv=742,mode=piecewise",
			ranges.Step{Program: "mixed", Vars: "mode=piecewise,seqs=2,tokens=101", Seq: 2, HasSeq: true, Seqs: 2, Tokens: 101, KV: 742})
		check(engine, "", "step:dummy seq=3", ranges.Step{Program: "dummy", Seq: 3, HasSeq: true})
		check(engine, "", "step:decode seq=7,seqs=48,tokens=48,kv=96000",
			ranges.Step{Program: "decode", Vars: "seqs=48,tokens=48", Seq: 7, HasSeq: true, Seqs: 48, Tokens: 48, KV: 96000})
		check(engine, "", "decode.layers.0.attention", ranges.Step{})
	}
}

// TestAnEngineFloodsNoLog: a process that sends one bad manifest after the other is told of once a minute.
func TestAnEngineFloodsNoLog(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	notice := logNotice(zap.New(core))
	for range 1000 {
		notice(engine.Notice{Level: engine.LevelWarn, Message: "the engine's manifest is refused", Pairs: []engine.Pair{{Key: "session", Value: "1"}}})
	}
	notice(engine.Notice{Level: engine.LevelWarn, Message: "the engine's manifest is refused", Pairs: []engine.Pair{{Key: "session", Value: "2"}}})
	assert.Equal(t, 2, logs.Len(), "one of each session")
}
