package krec

// Collectives are the names, beside NCCL's, that mutations give to kernels: symmetric-memory, multimem and custom
// all-reduces as PyTorch, vLLM and FlashInfer call them.
var Collectives = []string{
	"multimem_all_reduce_kernel",
	"multimem_one_shot_reduce_kernel",
	"one_shot_all_reduce_kernel",
	"two_shot_all_reduce_kernel",
	"_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii",
	"_ZN4vllm26cross_device_reduce_2stageI13__nv_bfloat16Li2EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii",
}
