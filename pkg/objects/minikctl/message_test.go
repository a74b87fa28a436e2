package minikctl

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
)

type messager interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// A kind that is sent as protobuf has the same JSON afterwards as one that is sent as JSON.
func TestMessagesKeepTheJSON(t *testing.T) {
	for name, blank := range map[string]func() messager{
		"Decision":     func() messager { return new(Decision) },
		"DecisionList": func() messager { return new(DecisionList) },
		"BindingBatch": func() messager { return new(BindingBatch) },
	} {
		for seed := range int64(200) {
			in := blank()
			filler(seed).Fill(in)
			want := strings.ReplaceAll(jsonOf(t, in), ":null", ":[]") // a list that is not omitted is never null afterwards
			b, err := in.Marshal()
			if err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			out := blank()
			if err := out.Unmarshal(b); err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			if got := jsonOf(t, out); got != want {
				t.Fatalf("%s, seed %d: the JSON is\n%s\nand was\n%s", name, seed, got, want)
			}
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// filler fills what a message has. Of the metadata, which Kubernetes' methods encode, that is what minikctl sets.
func filler(seed int64) *randfill.Filler {
	at := func(r *rand.Rand) time.Time { return time.Unix(r.Int63n(1<<32), r.Int63n(1e9)) }
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.3).NumElements(1, 3).Funcs(
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(*metav1.ListMeta, randfill.Continue) {},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			m.Namespace, m.Name, m.Labels = c.String(9), c.String(9), map[string]string{PodLabel: c.String(9)}
			m.CreationTimestamp = metav1.NewTime(at(c.Rand))
		},
		func(s *metav1.Status, c randfill.Continue) { s.Message, s.Code = c.String(9), c.Int31() },
		func(m *metav1.MicroTime, c randfill.Continue) { *m = metav1.NewMicroTime(at(c.Rand)) },
		func(m *time.Time, c randfill.Continue) { *m = at(c.Rand).In(time.FixedZone("", c.Intn(24)*1800)) },
	)
}

// Each field of a message that is in its JSON has a number.
func TestMessagesAreWhole(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var check func(of reflect.Type)
	check = func(of reflect.Type) {
		for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if seen[of] || of.Kind() != reflect.Struct || !strings.Contains(of.PkgPath(), "/minikctl/") {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			f := of.Field(i)
			switch f.Type {
			case reflect.TypeFor[metav1.TypeMeta](): // in the envelope of the message
				continue
			}
			if f.Tag.Get("protobuf") == "" {
				t.Errorf("%v.%s has no number", of, f.Name)
			}
			check(f.Type)
		}
	}
	check(reflect.TypeFor[DecisionList]())
	check(reflect.TypeFor[BindingBatch]())
	if len(seen) != 17 {
		t.Errorf("%d types, want 17", len(seen))
	}
}
