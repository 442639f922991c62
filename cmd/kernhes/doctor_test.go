package main

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// said makes up a machine whose programs say this, by program; what is not in it fails.
func said(programs map[string]string) machine {
	return machine{
		lookup: func(string) (string, bool) { return "", false },
		run: func(program string, args ...string) (string, error) {
			out, ok := programs[strings.Join(append([]string{program}, args...), " ")]
			if !ok {
				return "", exec.ErrNotFound
			}
			return out, nil
		},
		exists: func(string) bool { return false },
		read:   func(string) string { return "Linux version 6.8" },
		dial:   func(string, string) error { return nil },
	}
}

func text(found []finding) string {
	var lines []string
	for _, x := range found {
		lines = append(lines, x.level+" "+x.what+": "+x.text)
	}
	return strings.Join(lines, "\n")
}

const hopper = "cupti=/lib/libcupti.so.13\ncupti_version=130001\ndriver_version=13000\ngpu=9.0 NVIDIA H200\nhes=27 CUPTI_ERROR_NOT_SUPPORTED\n"

func TestDoctorOnHopper(t *testing.T) {
	m := said(map[string]string{"probe": hopper,
		"nvidia-smi --query-gpu=driver_version --format=csv,noheader":   "580.159.04\n",
		"nvidia-smi --query-gpu=mig.mode.current --format=csv,noheader": "Disabled\n"})
	want := []string{
		"ok driver: CUDA 13.0, driver 580.159.04",
		"ok GPU: NVIDIA H200, compute capability 9.0",
		"ok CUPTI: version 130001, /lib/libcupti.so.13",
		"warn CUPTI: graph launches may carry wrong correlation ids after the first tracing session; fixed in 13.1 Update 1",
		"warn CUPTI: with HES a flush while NCCL sets up may corrupt the heap, and copies in graphs lose half of their node's id; fixed in 13.4",
		"warn CUPTI: with HES it leaks 100 bytes a kernel and may crash while graphs are instantiated; fixed in 13.4 Update 1",
		"warn CUPTI: the longer it traces the more CPU it takes; fixed in 13.4 Update 1",
		"warn HES: this GPU has none: it needs Blackwell or newer (27, CUPTI_ERROR_NOT_SUPPORTED)",
		"note software: " + softwareCost,
		"note test: kernhes selftest --mode software (windows, hes) runs kernels on this GPU, and says whether all come and what that costs",
	}
	assert.Equal(t, strings.Join(want, "\n"), text(m.ask("probe", "")))
}

func TestDoctorOnBlackwell(t *testing.T) {
	check := func(cupti, answer, want string, change func(*machine)) {
		t.Helper()
		m := said(map[string]string{"probe": "cupti_version=" + cupti + "\ndriver_version=13040\ngpu=10.0 NVIDIA B200\n" + answer})
		change(&m)
		assert.Contains(t, text(m.ask("probe", "")), want)
	}
	same := func(*machine) {}
	check("130401", "hes=0 CUPTI_SUCCESS\nhes_on=1\n", "ok HES: possible with KERNHES_HES=on", same)
	check("130400", "hes=0 CUPTI_SUCCESS\nhes_on=1\n", "KERNHES_HES=on", same)
	check("130401", "hes=0 CUPTI_SUCCESS\nhes_on=0\n", "did not turn it on", same)
	check("130401", "hes=41 X\n", "not with confidential computing (41, X)", same)
	check("24", "", "this CUPTI has none", same)
	check("130401", "hes=99 X\n", "CUPTI refuses it (99, X)", same)
	check("130401", "hes=what\n", "kernhes-probe says what", same)
	check("130401", "hes=0 CUPTI_SUCCESS\n", "not with MIG", func(m *machine) {
		run := m.run
		m.run = func(program string, args ...string) (string, error) {
			if program == "nvidia-smi" {
				return "Disabled\nEnabled\n", nil
			}
			return run(program, args...)
		}
	})
	check("130401", "hes=0 CUPTI_SUCCESS\n", "not under WSL", func(m *machine) {
		m.read = func(string) string { return "Linux version 5.15-microsoft-standard-WSL2" }
	})
	check("130401", "hes=0 CUPTI_SUCCESS\n", "not under MPS", func(m *machine) {
		m.exists = func(path string) bool { return path == "/tmp/nvidia-mps/control" }
	})
}

func TestDoctorWithout(t *testing.T) {
	m := said(map[string]string{"probe /lib/libcupti.so.13": "cupti_error=no such file\ndriver_error=libcuda.so.1: no such file\n"})
	got := text(m.ask("probe", "/lib/libcupti.so.13"))
	assert.Contains(t, got, "FAIL driver: the CUDA driver does not work: libcuda.so.1")
	assert.Contains(t, got, "FAIL CUPTI: none found: no such file")
	assert.NotContains(t, got, "software")
	assert.ErrorIs(t, run([]string{"doctor", "--lib", "/nowhere"}, io.Discard), errPrevents)
}

func TestDoctorCollector(t *testing.T) {
	check := func(endpoint string, fault error, want string) {
		t.Helper()
		m := said(nil)
		m.lookup = func(string) (string, bool) { return endpoint, endpoint != "" }
		var dialled string
		m.dial = func(network, address string) error { dialled = network + " " + address; return fault }
		assert.Equal(t, want, m.collector().level+" "+dialled)
	}
	check("", nil, "ok unix /run/kernhes/kernhes.sock")
	check("unix:///tmp/k.sock", errors.New("refused"), "warn unix /tmp/k.sock")
	check("tcp://host:1", nil, "ok tcp host:1")
	check("http://host", nil, "FAIL ")
}
