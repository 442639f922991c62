package classify

import (
	"testing"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

func TestEveryRuleFitsItsNames(t *testing.T) {
	if len(Builtin) == 0 {
		t.Fatal("no rules")
	}
	for _, r := range Builtin {
		if len(r.Fits) == 0 || len(r.Not) == 0 {
			t.Errorf("%s: wants names that fit and look-alikes that do not", r.Match)
		}
		for _, name := range r.Fits {
			if !r.Match.MatchString(Path(name)) {
				t.Errorf("%s does not fit %q", r.Match, name)
			}
			if class, fused := Builtin.Class(name); class != r.Class || fused != r.Fused {
				t.Errorf("%q: a rule above %s gives it another class", name, r.Match)
			}
		}
		for _, name := range r.Not {
			if r.Match.MatchString(Path(name)) {
				t.Errorf("%s fits the look-alike %q", r.Match, name)
			}
		}
	}
}

func TestClass(t *testing.T) {
	check := func(name string, want span.Class) {
		t.Helper()
		if got, _ := Builtin.Class(name); got != want {
			t.Errorf("Class(%q) = %s, want %s", name, got, want)
		}
	}
	// As recorded on H200s.
	check("_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE", span.Comm)
	check("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_NNT", span.Compute)
	check("_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb", span.Compute)
	// Names as demanglers print them.
	check("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", span.Comm)
	check("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)", span.Comm)
	check("void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**)", span.Comm)
	check("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, allreduce_op> >(float)", span.Compute)
	check("void splitKreduce_kernel<float, float>(cublasSplitKParams<float>)", span.Compute)
	check("", span.Compute)
}

func TestPath(t *testing.T) {
	check := func(name, want string) {
		t.Helper()
		if got := Path(name); got != want {
			t.Errorf("Path(%q) = %q, want %q", name, got, want)
		}
	}
	check("void a::b<int, c<(d)1> >(e<f>)", "a::b")
	check("_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataE", "vllm::cross_device_reduce_1stage")
	check("_Zbroken", "_Zbroken")
	check("plain", "plain")
	check("unbalanced<<<", "unbalanced")
}

func TestParseSaysWhere(t *testing.T) {
	for _, table := range []string{"comm\tx", "gemm\tx\ty\tz", "comm\t(\ty\tz"} {
		if _, err := Parse("# fine\n" + table); err == nil {
			t.Errorf("Parse(%q) took it", table)
		} else if got := err.Error(); got[:14] != "rule in line 2" {
			t.Errorf("Parse(%q): %q does not say where", table, got)
		}
	}
}
