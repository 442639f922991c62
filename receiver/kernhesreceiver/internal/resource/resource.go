// Package resource turns the source of a rank's signals into resource attributes.
package resource

import (
	"cmp"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernhes/kernhes/internal/faults"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// faultsOf are the known faults of the CUPTI that an engine traces with, in a mode; none where it traces nothing.
func faultsOf(info map[string]string, mode string) []faults.Fault {
	version, err := strconv.Atoi(info["cupti_version"])
	if err != nil || mode == "off" {
		return nil
	}
	return faults.Of(version, mode == "hes")
}

func FaultTexts(info map[string]string, mode string) []string {
	texts := []string{}
	for _, f := range faultsOf(info, mode) {
		texts = append(texts, f.Text)
	}
	return texts
}

// Rank fills the resource of a rank's signals. What the engine does not say is left out.
func Rank(to pcommon.Map, r *engine.Source, instance string) {
	put := func(name, value string) {
		if value != "" {
			to.PutStr(name, value)
		}
	}
	gpu := "gpu." + strconv.Itoa(r.Device) + "."
	put(metadata.ResourceServiceName, cmp.Or(r.Info["engine"], "unknown_service"))
	put(metadata.ResourceServiceInstanceId, instance)
	put(metadata.ResourceHostName, r.Info["host"])
	if pid, err := strconv.ParseInt(r.Info["pid"], 10, 64); err == nil {
		to.PutInt(metadata.ResourceProcessPid, pid)
	}
	put(metadata.ResourceKernRun, r.Info["run"])
	put(metadata.ResourceKernMode, r.Mode)
	put(metadata.ResourceKernEngineVersion, r.Info["engine_version"])
	put(metadata.ResourceKernModel, r.Info["model"])
	to.PutInt(metadata.ResourceKernDevice, int64(r.Device))
	put(metadata.ResourceHwId, r.Info[gpu+"uuid"])
	put(metadata.ResourceHwModel, r.Info[gpu+"name"])
	if r.Info[gpu+"uuid"] != "" || r.Info[gpu+"name"] != "" {
		put(metadata.ResourceHwType, "gpu")
	}
	put(metadata.ResourceContainerId, r.Info[engine.KeyContainer])
	put(metadata.ResourceK8sPodUid, r.Info[engine.KeyPod])
	put(metadata.ResourceKernShimVersion, r.Info["shim_version"])
	put(metadata.ResourceKernCuptiVersion, r.Info["cupti_version"])
	put(metadata.ResourceKernCuptiKnownFaults, faults.IDs(faultsOf(r.Info, r.Mode)))
	put(metadata.ResourceKernDriverVersion, r.Info["driver_version"])
}
