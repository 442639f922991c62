package program

import "fmt"

// Layers of the model, and those whose indexer selects anew; the others use what the last one
// selected.
const Layers = 43

var indexed = map[int]bool{2: true, 8: true, 14: true, 20: true, 24: true, 28: true, 32: true, 36: true}

// Names of kernels.
const (
	allReduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
	sendRecv  = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
	megaMoE   = "void deep_gemm::sm100_fp8_fp4_mega_moe_impl<384u, 7168u, 2048u, 6u>(deep_gemm::MegaMoeParams)"
)

// A flash builds the program of a rank.
type flash struct {
	Program
	layout  Layout
	mode    string
	prefill bool
}

// Flash is the program of a batch's kind on a rank of a layout.
func Flash(l Layout, rank int, name string) *Program {
	f := &flash{Program: Program{Name: name, Graph: Graph(name)}, layout: l, mode: mode(name), prefill: !Graph(name)}
	stage := l.Stage(rank)
	per := (Layers + l.Stages - 1) / l.Stages
	if stage == 0 {
		f.begin()
	} else {
		f.transfer("recv", "ncclRecv")
	}
	for layer := stage * per; layer < min(Layers, (stage+1)*per); layer++ {
		f.attention(layer)
		f.experts(layer)
	}
	if stage == l.Stages-1 {
		f.head()
	} else {
		f.transfer("send", "ncclSend")
	}
	return &f.Program
}

// add appends a kernel that computes; costs are of decode and of prefill, where each token of a
// long batch is cheaper.
func (f *flash) add(call, op, name string, decode, prefill Cost) *Kernel {
	cost := decode
	if f.prefill {
		cost = prefill
	}
	f.Kernels = append(f.Kernels, Kernel{Call: f.mode + "." + call, Op: op, Name: name, Cost: cost, Grid: [3]uint32{132, 1, 1}, Block: [3]uint32{256, 1, 1}})
	return &f.Kernels[len(f.Kernels)-1]
}

// Costs of kinds of kernels, by decode and prefill.
func (f *flash) small(call, op, name string) {
	f.add(call, op, name, Cost{Fixed: 3400, Token: 12}, Cost{Fixed: 4000, Token: 3})
}

func (f *flash) gemm(call, op, name string) {
	share := float64(f.layout.Tensor)
	f.add(call, op, name, Cost{Fixed: 9200 / share, Token: 20 / share}, Cost{Fixed: 9000, Token: 24 / share})
}

func (f *flash) begin() {
	f.small("context.positions", "dsv41_positions", "dsv41_positions_kernel")
	f.small("context.slots", "dsv41_slots", "dsv41_slots_kernel")
	f.small("context.cu_seqlens", "dsv41_cu_seqlens", "dsv41_cu_seqlens_kernel")
	f.small("context.blocks", "dsv41_blocks", "dsv41_blocks_kernel")
	f.small("target.embed", "dsv41_embed", "void dsv41::embedding_kernel<__nv_bfloat16>(int const*, __nv_bfloat16 const*)")
	f.small("target.hc.init", "dsv41_hc_init", "dsv41_hc_init_kernel")
}

func (f *flash) attention(layer int) {
	at := fmt.Sprintf("target.attention.layers.%d.", layer)
	f.small(fmt.Sprintf("target.layers.%d.attn.mhc", layer), "dsv41_mhc", "dsv41_mhc_kernel<4>")
	f.gemm(at+"q_a", "dsv41_dense", "nvjet_sm100_tst_64x8_64x16_2x1_v_bz_TNT")
	f.small(at+"q_norm", "dsv41_rms_norm", "void dsv41::rms_norm_kernel<__nv_bfloat16>(__nv_bfloat16*)")
	f.gemm(at+"q_b", "dsv41_dense", "nvjet_sm100_tst_128x16_64x8_2x1_v_bz_TNT")
	f.gemm(at+"kv.gemm", "dsv41_dense", "nvjet_sm100_tst_64x8_64x16_4x1_v_bz_TNT")
	f.small(at+"rope", "dsv41_rope", "dsv41_rope_kernel")
	f.small(at+"cache", "dsv41_cache", "dsv41_cache_store_kernel")
	if indexed[layer] {
		f.indexer(layer)
	}
	f.add(at+"attention", "dsv41_fused_attention", "void dsv41::fused_attention_kernel<128, 512>(AttentionParams)",
		Cost{Fixed: 14000, Token: 90, KV: 22}, Cost{Fixed: 20000, Token: 42})
	f.gemm(at+"wo_a", "dsv41_dense", "nvjet_sm100_tst_64x8_64x16_2x1_h_bz_TNT")
	f.gemm(at+"wo_b.gemm", "dsv41_dense", "nvjet_sm100_tst_128x8_64x12_2x1_v_bz_TNT")
	if f.layout.Tensor > 1 {
		f.collective(at+"all_reduce", "ncclAllReduce", allReduce, Tensor, Cost{Fixed: 9000, Token: 6})
	}
}

func (f *flash) indexer(layer int) {
	at := fmt.Sprintf("index%d.", layer)
	f.gemm(at+"query", "dsv41_dense", "nvjet_sm100_tst_32x8_64x16_2x1_v_bz_TNT")
	f.small(at+"rope", "dsv41_rope", "dsv41_rope_kernel")
	f.small(at+"quant", "dsv41_quant", "dsv41_quantize_kernel")
	f.small(at+"weights", "dsv41_index_weights", "dsv41_index_weights_kernel")
	f.add(at+"score", "dsv41_index_score", "dsv41_index_score_kernel", Cost{Fixed: 7000, KV: 60}, Cost{Fixed: 9000, Token: 4, Both: 700})
	f.add(at+"select_top", "dsv41_index_select", "void dsv41::topk_kernel<2048>(float const*, int*)",
		Cost{Fixed: 9000, KV: 12}, Cost{Fixed: 9000, Token: 10, Both: 40})
}

func (f *flash) experts(layer int) {
	f.small(fmt.Sprintf("target.layers.%d.ffn.mhc", layer), "dsv41_mhc", "dsv41_mhc_kernel<4>")
	at := fmt.Sprintf("target.moe.layers.%d.", layer)
	f.small(at+"gate", "dsv41_gate", "dsv41_gate_kernel")
	f.add(at+"shared", "dsv41_dense", "nvjet_sm100_tst_128x32_64x8_2x1_v_bz_TNT", Cost{Fixed: 16000, Token: 25}, Cost{Fixed: 16000, Token: 40}).Side = true
	k := f.add(at+"experts", "dsv41_mega_moe_e384", megaMoE, Cost{Fixed: 52000, Token: 380}, Cost{Fixed: 60000, Token: 195})
	k.Meets, k.Layer, k.Grid, k.Block = Experts, layer, [3]uint32{152, 1, 1}, [3]uint32{512, 1, 1}
}

func (f *flash) head() {
	f.small("target.hc.post", "dsv41_hc_post", "dsv41_hc_post_kernel")
	f.gemm("target_head.project", "dsv41_dense", "nvjet_sm100_tst_256x32_64x6_2x1_v_bz_TNT")
	f.small("target_head.sample", "dsv41_argmax", "dsv41_argmax_partial_kernel")
	f.small("target_head.sample", "dsv41_argmax", "dsv41_argmax_final_kernel")
}

// collective appends a call of NCCL.
func (f *flash) collective(call, function, name string, meets Meeting, cost Cost) {
	k := f.add(call, function, name, cost, cost)
	k.Meets, k.NCCL, k.Bytes, k.Grid, k.Block = meets, function, 2*7168, [3]uint32{16, 1, 1}, [3]uint32{512, 1, 1}
}

func (f *flash) transfer(call, function string) {
	f.collective("target.stage."+call, function, sendRecv, Stages, Cost{Fixed: 12000, Token: 9})
}
