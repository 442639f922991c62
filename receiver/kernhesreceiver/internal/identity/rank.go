package identity

import (
	"slices"
	"strconv"
	"strings"
)

// A Rank is a process's rank by one piece of evidence.
type Rank struct {
	N    int64
	From string // for people
}

// FromDevice says that the rank is the place of the GPU among those of the host.
const FromDevice = "place of the GPU on its host"

// RankOf is the rank of a process, which is that of its first device with steps; false: only the device says it.
// inherited says of a launcher's rank that several processes of this host have it, so that it is not theirs.
func RankOf(info map[string]string, world World, inherited bool) (Rank, bool) {
	if n, err := strconv.ParseInt(info["rank"], 10, 64); err == nil {
		return Rank{n, "KERNHES_RANK"}, true
	}
	if world.covers(info) && world.Rank >= 0 {
		return Rank{world.Rank, FromNCCL}, true
	}
	if r, ok := launcherRank(info); ok && !inherited {
		return r, true
	}
	return Rank{}, false
}

// launcherRank is the rank that a launcher gave the process, where it is known to start one process a rank. The variables
// are inherited: a launcher that starts one process, which starts the workers, leaves them all the same rank.
func launcherRank(info map[string]string) (Rank, bool) {
	for _, l := range []struct {
		rank  string
		sizes []string // one of them is above 1
		also  string   // is given; "": nothing else need be
	}{
		{"RANK", []string{"WORLD_SIZE"}, "LOCAL_RANK"},
		{"OMPI_COMM_WORLD_RANK", []string{"OMPI_COMM_WORLD_SIZE"}, ""},
		{"PMI_RANK", []string{"PMI_SIZE"}, ""},
		{"PMIX_RANK", []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}, ""},
		{"SLURM_PROCID", []string{"SLURM_STEP_NUM_TASKS"}, ""},
	} {
		n, ok := number(info["env."+l.rank])
		several := slices.ContainsFunc(l.sizes, func(name string) bool {
			size, ok := number(info["env."+name])
			return ok && size > 1 && n < size
		})
		if ok && several && (l.also == "" || info["env."+l.also] != "") {
			return Rank{n, l.rank}, true
		}
	}
	return Rank{}, false
}

// Place is a device's place among the GPUs of its host; false: that is not known, since it is named by its UUID, or is one of
// several MIG instances.
func Place(info map[string]string, device uint16) (int64, bool) {
	gpu := "gpu." + strconv.Itoa(int(device)) + "."
	visible := visibleDevice(info, device)
	if strings.HasPrefix(info[gpu+"uuid"], "MIG-") || strings.HasPrefix(visible, "MIG-") {
		return 0, false
	}
	if pci := info[gpu+"pci"]; pci != "" {
		if i := slices.Index(strings.Split(info["host.gpus"], ","), pci); i >= 0 {
			return int64(i), true
		}
	}
	if visible == "" {
		return int64(device), true
	}
	return number(visible)
}

// Device names a device so that two devices of a host have two names, which are in order of PCI where that is known.
func Device(info map[string]string, device uint16) string {
	gpu := "gpu." + strconv.Itoa(int(device)) + "."
	name := info[gpu+"uuid"]
	if name == "" {
		name = visibleDevice(info, device)
	}
	if name == "" {
		name = strconv.Itoa(int(device))
	}
	return info["host"] + " " + info[gpu+"pci"] + " " + name
}

// visibleDevice is what CUDA_VISIBLE_DEVICES calls a device; "" if it says nothing of it.
func visibleDevice(info map[string]string, device uint16) string {
	if list := strings.Split(info["visible_devices"], ","); int(device) < len(list) {
		return strings.TrimSpace(list[device])
	}
	return ""
}
