package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "mine.tsv")
	require.NoError(t, os.WriteFile(mine, []byte("# version: 7\nfused\tpath\t^our_moe\n"), 0o600))
	const names = "ncclDevKernel_SendRecv\nour_moe_kernel\n_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataE\n[CUDA memset]\n"
	check := func(want string, args ...string) {
		t.Helper()
		var out strings.Builder
		require.NoError(t, classify(args, strings.NewReader(names), &out))
		assert.Equal(t, want, out.String())
	}
	check("comm\ncompute\ncomm\nmemcpy\n")
	check("comm\nfused\ncomm\nmemcpy\n", "--table", mine)
	check("7+4\n", "--table", mine, "--table-version")
}

func TestClassifyFails(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.tsv")
	require.NoError(t, os.WriteFile(broken, []byte("comm\tpath\t^x\ncom\tpath\t^y\n"), 0o600))
	check := func(want string, args ...string) {
		t.Helper()
		assert.ErrorContains(t, classify(args, strings.NewReader(""), io.Discard), want)
	}
	check(broken+`: rule in line 2: class "com"`, "--table", broken)
	check("no such file", "--table", broken+".not")
	check(`unexpected "x"`, "x")
	assert.True(t, errors.Is(run([]string{"classify", "--help"}, io.Discard), flag.ErrHelp))
}
