// Package kubernetes_test builds the manifests of deploy/kubernetes and decodes them strictly, against the types of the Kubernetes
// API. It is a module of its own, so that the main module does not need Kubernetes.
package kubernetes_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write prometheusrule.yaml anew")

const folder = "../../deploy/kubernetes/"

// kinds are the kinds that we ship, each as an empty object.
var kinds = map[string]func() any{
	"v1/Namespace":                            func() any { return &core.Namespace{} },
	"v1/ServiceAccount":                       func() any { return &core.ServiceAccount{} },
	"v1/ConfigMap":                            func() any { return &core.ConfigMap{} },
	"v1/Service":                              func() any { return &core.Service{} },
	"apps/v1/DaemonSet":                       func() any { return &apps.DaemonSet{} },
	"apps/v1/Deployment":                      func() any { return &apps.Deployment{} },
	"policy/v1/PodDisruptionBudget":           func() any { return &policy.PodDisruptionBudget{} },
	"networking.k8s.io/v1/NetworkPolicy":      func() any { return &networking.NetworkPolicy{} },
	"monitoring.coreos.com/v1/PodMonitor":     func() any { return &monitoring.PodMonitor{} },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return &monitoring.PrometheusRule{} },
}

// objects are what kustomize makes of a folder, by kind and name.
func objects(t *testing.T, dir string) map[string]any {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(folder, dir))
	require.NoError(t, err)
	all := map[string]any{}
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		require.NoError(t, err)
		kind := strings.TrimPrefix(r.GetApiVersion()+"/"+r.GetKind(), "/")
		empty := kinds[kind]
		require.NotNil(t, empty, "%s: no type for %s", dir, kind)
		object := empty()
		require.NoError(t, yaml.UnmarshalStrict(text, object), "%s: %s %s", dir, kind, r.GetName())
		all[r.GetKind()+" "+r.GetName()] = object
	}
	return all
}

// find is the object of a kind whose name begins so: kustomize appends hashes to those of ConfigMaps.
func find[T any](t *testing.T, all map[string]any, begins string) T {
	t.Helper()
	for name, object := range all {
		if strings.HasPrefix(name, begins) {
			return object.(T)
		}
	}
	t.Fatalf("no %s", begins)
	panic("unreachable")
}

// pods are the templates of all pods.
func pods(all map[string]any) map[string]core.PodSpec {
	found := map[string]core.PodSpec{}
	for name, object := range all {
		switch o := object.(type) {
		case *apps.DaemonSet:
			found[name] = o.Spec.Template.Spec
		case *apps.Deployment:
			found[name] = o.Spec.Template.Spec
		}
	}
	return found
}

var all = []string{"overlays/node", "overlays/cluster", "examples/vllm"}

// TestEveryObjectIsOneOfKubernetes also holds references between objects together.
func TestEveryObjectIsOneOfKubernetes(t *testing.T) {
	for _, dir := range all {
		made := objects(t, dir)
		require.NotEmpty(t, made)
		for name, pod := range pods(made) {
			volumes := map[string]bool{}
			for _, v := range pod.Volumes {
				volumes[v.Name] = true
				if v.ConfigMap != nil {
					assert.Contains(t, made, "ConfigMap "+v.ConfigMap.Name, "%s: %s", dir, name)
				}
			}
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				assert.NotEqual(t, "kernhes", c.Image, "%s: %s: %s: kustomize gives it a registry", dir, name, c.Name)
				for _, m := range c.VolumeMounts {
					assert.True(t, volumes[m.Name], "%s: %s: %s mounts %s", dir, name, c.Name, m.Name)
				}
			}
			if pod.ServiceAccountName != "" {
				assert.Contains(t, made, "ServiceAccount "+pod.ServiceAccountName)
			}
		}
	}
}

// TestNoPrivileges holds our containers to the restricted pod security standard, but for hostPath and the folders' init containers.
func TestNoPrivileges(t *testing.T) {
	for _, dir := range all {
		for name, pod := range pods(objects(t, dir)) {
			assert.False(t, pod.HostNetwork || pod.HostPID || pod.HostIPC, name)
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				if !strings.Contains(c.Image, "kernhes") {
					continue // the engine's
				}
				s := c.SecurityContext
				require.NotNil(t, s, "%s: %s", name, c.Name)
				assert.True(t, *s.ReadOnlyRootFilesystem && !*s.AllowPrivilegeEscalation, "%s: %s", name, c.Name)
				assert.Equal(t, []core.Capability{"ALL"}, s.Capabilities.Drop)
				if strings.Contains(strings.Join(c.Command, " "), "/usr/bin/kernhes folder") {
					assert.Equal(t, []core.Capability{"CHOWN", "FOWNER", "FSETID"}, s.Capabilities.Add)
					continue
				}
				assert.Empty(t, s.Capabilities.Add)
				assert.Nil(t, s.Privileged)
				root := pod.SecurityContext.RunAsNonRoot
				if s.RunAsNonRoot != nil {
					root = s.RunAsNonRoot
				}
				require.NotNil(t, root, "%s: %s", name, c.Name)
				assert.True(t, *root, "%s: %s", name, c.Name)
				assert.NotEmpty(t, c.Resources.Limits.Memory().String())
			}
		}
	}
}

// TestEngine holds what an engine's pod gets to what the shim and the collector need.
func TestEngine(t *testing.T) {
	engine := find[*apps.Deployment](t, objects(t, "examples/vllm"), "Deployment vllm").Spec.Template.Spec
	collector := find[*apps.DaemonSet](t, objects(t, "overlays/node"), "DaemonSet kernhes-collector").Spec.Template.Spec
	group := regexp.MustCompile(`--group=(\d+)`).FindStringSubmatch(strings.Join(collector.InitContainers[0].Command, " "))
	require.NotNil(t, group)
	require.Len(t, engine.SecurityContext.SupplementalGroups, 1)
	assert.Equal(t, "10002", group[1])
	assert.EqualValues(t, 10002, engine.SecurityContext.SupplementalGroups[0])
	socket := func(pod core.PodSpec, name string) string {
		for _, v := range pod.Volumes {
			if v.Name == name {
				return v.HostPath.Path
			}
		}
		return ""
	}
	assert.Equal(t, "/run/kernhes", socket(engine, "kernhes-socket"))
	assert.Equal(t, "/run/kernhes", socket(collector, "socket"))
	require.Len(t, engine.Containers, 1)
	set := map[string]string{}
	for _, v := range engine.Containers[0].Env {
		set[v.Name] = v.Value
	}
	assert.Equal(t, map[string]string{
		"CUDA_INJECTION64_PATH": "/opt/kernhes/libkernhes.so", "NVTX_INJECTION64_PATH": "/opt/kernhes/libkernhes.so",
		"KERNHES_ENDPOINT": "unix:///run/kernhes/kernhes.sock", "PYTHONPATH": "/opt/kernhes/kernhes.whl", "KERNHES_ENGINE": "vllm",
	}, set)
	assert.Equal(t, []string{"/usr/bin/kernhes", "copy", "/opt/kernhes"}, engine.InitContainers[0].Command)
	assert.Len(t, engine.Volumes, 3, "the engine keeps its own")
	assert.Len(t, engine.Containers[0].VolumeMounts, 3)
	gpus := engine.Containers[0].Resources.Limits["nvidia.com/gpu"]
	assert.EqualValues(t, 8, gpus.Value())
}

// TestFiveLines holds what a newcomer has to change for an engine of 8 GPUs to five marked lines.
func TestFiveLines(t *testing.T) {
	changes := 0
	for _, dir := range []string{"overlays/node", "examples/vllm"} {
		files, err := filepath.Glob(filepath.Join(folder, dir, "*.yaml"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			changes += strings.Count(string(text), "# CHANGE")
		}
	}
	assert.LessOrEqual(t, changes, 5)
}

// TestRules holds the PrometheusRule to the rule files of dashboards/rules.
func TestRules(t *testing.T) {
	rule := monitoring.PrometheusRule{}
	rule.APIVersion, rule.Kind, rule.Name = "monitoring.coreos.com/v1", "PrometheusRule", "kernhes"
	for _, file := range []string{"recording.yaml", "alerts.yaml"} {
		text, err := os.ReadFile("../../dashboards/rules/" + file)
		require.NoError(t, err)
		var spec monitoring.PrometheusRuleSpec
		require.NoError(t, yaml.UnmarshalStrict(text, &spec), file)
		require.NotEmpty(t, spec.Groups)
		rule.Spec.Groups = append(rule.Spec.Groups, spec.Groups...)
	}
	want, err := yaml.Marshal(rule)
	require.NoError(t, err)
	want = append([]byte("# Made from dashboards/rules: go test -C test/kubernetes -run Rules -update\n"), want...)
	path := folder + "monitoring/prometheusrule.yaml"
	if *update {
		require.NoError(t, os.WriteFile(path, want, 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "go test -C test/kubernetes -run Rules -update")
}

// TestConfigurations writes the configurations that collectors get into KERNHES_CONFIGS, for the collector to check; without it,
// it holds them to YAML and to the names of the objects that they reach.
func TestConfigurations(t *testing.T) {
	made := objects(t, "overlays/cluster")
	for _, name := range []string{"collector", "gateway"} {
		config := find[*core.ConfigMap](t, made, "ConfigMap kernhes-"+name).Data["config.yaml"]
		var settings map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(config), &settings), name)
		for _, reached := range regexp.MustCompile(`([a-z-]+)\.kernhes\.svc\.cluster\.local`).FindAllStringSubmatch(config, -1) {
			service := find[*core.Service](t, made, "Service "+reached[1])
			assert.Equal(t, "None", service.Spec.ClusterIP)
			assert.EqualValues(t, 4317, service.Spec.Ports[0].Port)
		}
		if dir := os.Getenv("KERNHES_CONFIGS"); dir != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(config), 0o644))
		}
	}
	// A component replaces the collector's configuration.
	assert.Contains(t, find[*core.ConfigMap](t, made, "ConfigMap kernhes-collector").Data["config.yaml"], "kernhes-gateway")
	assert.NotContains(t, find[*core.ConfigMap](t, objects(t, "overlays/node"), "ConfigMap kernhes-collector").Data["config.yaml"], "kernhes-gateway")
}
