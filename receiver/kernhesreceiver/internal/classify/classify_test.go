package classify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// word is the class of a name, as tables write it.
func word(name string) string { return Word(Builtin.Class(name)) }

func TestEveryRuleFitsItsNames(t *testing.T) {
	if len(Builtin.List) == 0 || Builtin.Version != "4" {
		t.Fatalf("%d rules of version %q", len(Builtin.List), Builtin.Version)
	}
	for _, r := range Builtin.List {
		if len(r.Fits) == 0 || len(r.Not) == 0 {
			t.Errorf("%s: wants names that fit and look-alikes that do not", r.Match)
		}
		for _, name := range r.Fits { // that it fits was checked by Parse
			if class, fused := Builtin.Class(name); class != r.Class || fused != r.Fused {
				t.Errorf("%q: a rule above %s makes it %s", name, r.Match, word(name))
			}
		}
	}
}

// Names of real kernels, from traces and sources of many projects, each with its class; and names like theirs, by families.
func TestRealNames(t *testing.T) {
	lines := append(table(t, "kernel_names.tsv"), table(t, "families.tsv")...)
	if len(lines) < 270 {
		t.Fatalf("%d names", len(lines))
	}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		if got := word(f[0]); got != f[1] {
			t.Errorf("%s: %s, want %s", f[0], got, f[1])
		}
		if plain := Path(f[0]); plain == f[0] && f[1] != "memcpy" && !strings.HasPrefix(plain, "_Z") {
			if got := word(mangle(plain)); got != f[1] {
				t.Errorf("%s: %s, want %s", mangle(plain), got, f[1])
			}
		}
	}
}

// table is the lines of a table below its head.
func table(t *testing.T, name string) []string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(body)), "\n")[1:]
}

// What surely computes is known, so that what is left to look at is short: of the real kernels' names, a tenth.
func TestFewNamesAreUnknown(t *testing.T) {
	lines, unknown := table(t, "kernel_names.tsv"), 0
	for _, line := range lines {
		name, _, _ := strings.Cut(line, "\t")
		if _, _, ruled := Builtin.Look(name); !ruled {
			unknown++
			t.Log(name)
		}
	}
	if unknown > len(lines)/10 {
		t.Errorf("%d of %d names are unknown", unknown, len(lines))
	}
}

// mangle is a path as the name of a function without parameters.
func mangle(path string) string {
	parts := strings.Split(path, "::")
	var b strings.Builder
	b.WriteString("_Z")
	if len(parts) > 1 {
		b.WriteString("N")
	}
	for _, part := range parts {
		b.WriteString(itoa(len(part)) + part)
	}
	if len(parts) > 1 {
		b.WriteString("E")
	}
	return b.String() + "v"
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func TestClass(t *testing.T) {
	check := func(name, want string) {
		t.Helper()
		if got := word(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
	// As recorded on H200s.
	check("_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE", "comm")
	check("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_NNT", "compute")
	check("_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb", "compute")
	// Mangled, also cut short on the way.
	check("_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataE", "comm")
	check("_ZN4vllm26cross_device_reduce_1stageI13__nv_bflo", "comm")
	check("_ZN7deep_ep12internode_ll8dispatchILb1ELi3ELi10ELi7168EEEvPvPfPiPl", "comm")
	check("_ZN10flashinfer23trtllm_allreduce_fusion39allreduce_fusion_kernel_oneshot_lamportILNS0_22AllReduceFusionPatternE1E13__nv_bfloat16Li8ELb0ELb0EEEvNS0_21AllReduceFusionParamsIT0_EE", "fused")
	// Template arguments and parameters say nothing of what a kernel is.
	check("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, allreduce_op> >(float)", "compute")
	check("void copy_kernel<int>(deep_ep::internode::dispatch, nccl::ncclDevKernel_)", "compute")
	// Local work under the names of exchanges.
	check("void moe::dispatch_tokens_local<4>(int*)", "compute")
	check("moe_combine_weighted_sum_kernel", "compute")
	check("void cub::DeviceReduceKernel<float>(float*)", "compute")
	check("reduce_scatterer", "compute")
	check("void flashinfer::comm::dcp::MergeKernel<__nv_bfloat16, true>(unsigned char const*)", "compute")
	check("jit_fused_softmax_warp_all_reduce", "compute")
	check("", "compute")
	check("\xff\xfe", "compute")
	check(strings.Repeat("<", 5000), "compute")
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
	check("_ZN12_GLOBAL__N_119two_shot_all_reduceI", "two_shot_all_reduce")
	check("_ZN4vllm26cross_dev", "vllm::cross_dev")
	check("_Z99999999999999999999short", "short")
	check("_Zbroken", "_Zbroken")
	check("plain", "plain")
	check("unbalanced<<<", "unbalanced")
	// Signs within parentheses open and close nothing.
	check("void x::f<(4 > 2)>(int*)", "x::f")
	check("void x::f<(bool)((8) >= (4)), 768>(int4*)", "x::f")
	check("std::enable_if<(((8)>(0)))&&a::b<c>::d, void>::type v::f<c::T, 8>(c::T*, int)", "v::f")
	check("_ZN1x17all_gather_kernelILi8EEENSt9enable_ifIXgtT_Li0EEvE4typeEPi", "x::all_gather_kernel")
	check("void ns::f<&(foo::operator()(int))>(int)", "ns::f")
	check("void ns::f<&ns::operator< <int>, 3>(int)", "ns::f")
	check("void ns::f<&ns::operator->, 3>(int)", "ns::f")
	check("void op::f<float, (lambda at /x/y.cu:12:3)>(float*)", "op::f")
	check("void a::b<int>::operator()<c>(d)", "a::b::operator()")
	check("void f<g::{lambda(int)#1}>(int)", "f")
	// Return types.
	check("decltype(auto) ns::f<int>(int)", "ns::f")
	check("decltype ((a)+(b)) ns::f<int>(int)", "ns::f")
	check("decltype((x > y)) f(int)", "f")
	// What nobody named.
	check("void (anonymous namespace)::f<1>(int)", "f")
	check("void ns::(anonymous namespace)::f<1>(int)", "ns::f")
	check("void <unnamed>::f<1>(int)", "f")
	check("void ns::<unnamed>::f(int)", "ns::f")
	check("void {anonymous}::f(int)", "f")
	check("void `anonymous namespace'::f(int)", "f")
	check("void _NV_ANON_NAMESPACE::f(int)", "f")
	check("void _GLOBAL__N__1a2b3c4d_4_x_cu_f::f(int)", "f")
	check("_GLOBAL__N_f", "_GLOBAL__N_f")
	check("__nv_static_29__1a2b3c4d_4_a_cu_f__ZN1a1fEPi", "a::f")
	check("_ZL9my_kernelPi", "my_kernel")
	// Spaces and tags.
	check("f[abi:cxx11](int)", "f")
	check("void f<int> (int, int)", "f")
	check("::f(int)", "f")
	check("f<(", "f")
	check("f<g>h", "fh")
	check("", "")
}

// TestLongMangledNames: parameters are only known of a name that was demangled.
func TestLongMangledNames(t *testing.T) {
	const long = 2040
	ident := strings.Repeat("k", long)
	if got, want := Whole(fmt.Sprintf("_Z%d%si", long, ident)), ident+"(int)"; got != want {
		t.Errorf("a mangled name of 2 KiB: %.40s… of %d bytes, want it demangled, %d bytes", got, len(got), len(want))
	}
	// Cut by the wire in its second identifier.
	cut := fmt.Sprintf("_ZN4vllm4000%s", ident)
	if got, want := Whole(cut), "vllm::"+ident; got != want {
		t.Errorf("a name that was cut: %.40s… of %d bytes, want its path of %d", got, len(got), len(want))
	}
}

func TestTableOfTheUser(t *testing.T) {
	mine, err := Parse("# version: mine\r\n\ncompute\tpath\t^allreduce_kernel$\tallreduce_kernel\tallreduce_kernel_2\ncomm\twhole\tmy<\tvoid my<int>()\nspin\tpath\t^wait$\r\n")
	if err != nil {
		t.Fatal(err)
	}
	rules := mine.Over(Builtin)
	check := func(name string, want span.Class, ruled bool) {
		t.Helper()
		if class, _, r := rules.Look(name); class != want || r != ruled {
			t.Errorf("%q is %s (ruled: %v), want %s", name, class, r, want)
		}
	}
	check("allreduce_kernel", span.Compute, true)
	check("allreduce_kernel_2", span.Comm, true)
	check("void my<int>()", span.Comm, true)
	check("wait", span.Spin, true)
	check("gemm", span.Compute, true)
	check("mystery", span.Compute, false)
	if rules.Version != "mine+4" || len(Builtin.List) >= len(rules.List) {
		t.Errorf("version %q of %d rules", rules.Version, len(rules.List))
	}
}

func TestParseSaysWhere(t *testing.T) {
	check := func(line, want string) {
		t.Helper()
		_, err := Parse("# fine\n" + line)
		if err == nil || !strings.HasPrefix(err.Error(), "rule in line 2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want rule in line 2: … %s", line, err, want)
		}
	}
	check("comm\tpath", "2 columns")
	check("comm\tpath\tx\tx\ty\tz", "6 columns")
	check("gemm\tpath\tx", `class "gemm"`)
	check("comm\tname\tx", `"name", want path or whole`)
	check("comm\tpath\t", "expression is empty")
	check("comm\tpath\t(", "error parsing regexp")
	check("comm\tpath\tx\ty", `does not fit "y"`)
	check("comm\tpath\tx\tx\tyxy", `fits the look-alike "yxy"`)
	if _, err := Parse(strings.Repeat("comm\tpath\tx\n", 2000)); err == nil || !strings.Contains(err.Error(), "line 1001: more than 1000") {
		t.Errorf("2,000 rules: %v", err)
	}
	if _, err := Parse(strings.Repeat("#", 2<<20)); err == nil {
		t.Error("a table of 2 MiB was taken")
	}
}

// Whatever is taken as a table classes whatever it is given.
func FuzzTable(f *testing.F) {
	f.Add("comm\tpath\t(^|::)x\tx\ty", "_ZN4vllm1xEv")
	f.Add("# version: 7\nspin\twhole\thold\n", "void hold<int>()")
	recording, err := krec.Read("../../../../testdata/recordings/tp2.rank1.krec.zst")
	if err != nil {
		f.Fatal(err)
	}
	for _, frame := range recording.Frames {
		if n, ok := frame.(*krec.Name); ok {
			f.Add("comm\tpath\tnccl", n.Text)
		}
	}
	f.Fuzz(func(t *testing.T, table, name string) {
		rules, err := Parse(table)
		if err != nil {
			return
		}
		over := rules.Over(Builtin)
		class, fused, ruled := over.Look(name)
		if fused && class != span.Comm || !ruled && class != span.Compute {
			t.Errorf("%q is %s, fused %v, ruled %v", name, class, fused, ruled)
		}
	})
}

// Whatever stands within parentheses among the template arguments, the path is the same.
func FuzzPath(f *testing.F) {
	f.Add("void x::f<(4 > 2)>(int*)", "4 > 2")
	f.Add("std::enable_if<((8)>(0)), void>::type v::f<8>(int)", "a<b, c->d, operator<")
	f.Add("decltype ((a)+(b)) n::<unnamed>::f(int)", "lambda at /x/y.cu:12:3")
	f.Add("__nv_static_1__x__Z1fPi", "{`[<")
	f.Fuzz(func(t *testing.T, name, args string) {
		if path := Path(name); len(path) > len(Whole(name)) || strings.HasPrefix(path, "::") {
			t.Errorf("Path(%q) = %q", name, path)
		}
		args = strings.NewReplacer("(", "", ")", "").Replace(args)
		if got := Path("void ns::f<8, (" + args + ")>(int)"); got != "ns::f" {
			t.Errorf("arguments %q: path %q", args, got)
		}
	})
}
