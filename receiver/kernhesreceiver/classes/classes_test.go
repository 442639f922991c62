package classes

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestPrint(t *testing.T) {
	check := func(table Table, in, want string) {
		t.Helper()
		var out strings.Builder
		if err := table.Print(strings.NewReader(in), &out); err != nil || strings.ReplaceAll(out.String(), "\n", " ") != want {
			t.Errorf("%.100q gives %q, %v; want %q", in, out.String(), err, want)
		}
	}
	check(Builtin(), "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)\r\nmega_moe_e64_r2\nnvjet_x\nMemset (Device)\nhold", "comm fused compute memcpy spin ")
	check(Builtin(), "", "")
	check(Builtin(), "\n\n", "compute compute ")
	check(Builtin(), "\xff\xfe\x00\x1b[2J\n_Z\n_ZN99999999999999999999x\n"+strings.Repeat("<", 5000)+"\n\u202encclDevKernel_Generic\nncclDevKernel_Generic\x00\n \t",
		"compute compute compute compute compute comm compute ")
	check(Builtin(), "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataE\n_ZN4vllm26cross_device_reduce_1stageI\xff\n", "comm comm ")
	check(Builtin(), strings.Repeat("x", 3<<20)+"\nncclDevKernel_Generic\n", "compute comm ")

	// CSV fields in quotes.
	check(Builtin(), "\"ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)\"\n\"f(\"\"a\"\")\",12,3\r\n\"ncclDevKernel_SendRecv\n\"\"\n\"", "comm compute comm compute compute ")
	check(Builtin(), "\"void <unnamed>::dispatchKernel<512, 7168>(int)\",\"x\"\n", "comm ")

	mine, err := Builtin().Over("# version: mine\ncomm\tpath\t^ours_")
	if err != nil || !strings.HasPrefix(mine.Version(), "mine+") {
		t.Fatalf("version %q, %v", mine.Version(), err)
	}
	check(mine, "ours_x\nhold\n", "comm spin ")
	if _, err := Builtin().Over("comm\tpath\t("); err == nil || !strings.Contains(err.Error(), "rule in line 1") {
		t.Errorf("a broken table: %v", err)
	}
}

func TestPrintReadError(t *testing.T) {
	broken := errors.New("broken")
	if err := Builtin().Print(iotest.ErrReader(broken), &strings.Builder{}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
