package main

import (
	"fmt"
	"strconv"
	"strings"
)

// hesMended is the version above which the known faults of HES are mended.
const hesMended = 130400

// refusals say what CUPTI's answers to HES mean.
var refusals = map[int]string{
	27: "this GPU has none: it needs Blackwell or newer",
	33: "not on a virtual GPU",
	41: "not with confidential computing",
	42: "not on a mining card",
	43: "not with MIG",
	44: "not with SLI",
	45: "not under WSL",
	47: "not under MPS",
}

// hes tells whether the Hardware Event System can be used, or why not.
func (m machine) hes(said map[string][]string, version int) finding {
	if why := m.forbids(); why != "" {
		return finding{"warn", "HES", why}
	}
	answer := last(said["hes"])
	if answer == "" {
		return finding{"warn", "HES", "this CUPTI has none: it came with 12.8"}
	}
	number, word, _ := strings.Cut(answer, " ")
	code, err := strconv.Atoi(number)
	if err != nil {
		return finding{"warn", "HES", "kernhes-probe says " + answer}
	}
	if code != 0 {
		why := refusals[code]
		if why == "" {
			why = "CUPTI refuses it"
		}
		return finding{"warn", "HES", fmt.Sprintf("%s (%d, %s)", why, code, word)}
	}
	if last(said["hes_on"]) == "0" {
		return finding{"warn", "HES", "CUPTI took the request but did not turn it on"}
	}
	if version <= hesMended {
		return finding{"note", "HES", "possible with KERNHES_HES=on, but this CUPTI has faults with it"}
	}
	return finding{"ok", "HES", "possible with KERNHES_HES=on; off by default, since kernhes has not been seen with it on hardware"}
}

// forbids names what of this machine's set-up forbids HES, whatever the GPU.
func (m machine) forbids() string {
	if strings.Contains(strings.ToLower(m.read("/proc/version")), "microsoft") {
		return refusals[45]
	}
	pipe, ok := m.lookup("CUDA_MPS_PIPE_DIRECTORY")
	if !ok || pipe == "" {
		pipe = "/tmp/nvidia-mps"
	}
	if m.exists(pipe + "/control") {
		return refusals[47] + ": " + pipe + " has a control pipe"
	}
	if out, err := m.run("nvidia-smi", "--query-gpu=mig.mode.current", "--format=csv,noheader"); err == nil && strings.Contains(out, "Enabled") {
		return refusals[43] + ": nvidia-smi says that it is enabled"
	}
	return ""
}
