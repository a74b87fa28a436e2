package codec

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// A list of metadata that is spliced of the bytes of its items is the list that would be encoded as one.
func TestPartialListEqualsTypedEncoding(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1", "v1beta1"} {
		its, maps := items(3)
		kind := metav1.TypeMeta{APIVersion: "meta.k8s.io/" + version, Kind: "PartialObjectMetadata"}
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: kind.APIVersion, Kind: kind.Kind + "List"}, ListMeta: maps.ListMeta}
		for i := range maps.Items {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{TypeMeta: kind, ObjectMeta: maps.Items[i].ObjectMeta})
		}
		got, err := PartialList(its, list.ListMeta, version, JSON)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want)+"\n", string(joined(t, got))); diff != "" {
			t.Errorf("JSON in %s: -want +got\n%s", version, diff)
		}
		var buf bytes.Buffer
		if err := protobuf.NewSerializer(scheme, scheme).Encode(list, &buf); err != nil {
			t.Fatal(err)
		}
		if got, err = PartialList(its, list.ListMeta, version, Protobuf); err != nil {
			t.Fatal(err)
		}
		if b := joined(t, got); !bytes.Equal(b, buf.Bytes()) {
			t.Errorf("protobuf in %s:\nwant %q\ngot  %q", version, buf.Bytes(), b)
		}
	}
}

// The metadata of an object is encoded once for all tables, lists and watches.
func TestPartialsAreShared(t *testing.T) {
	its, _ := items(1)
	for _, f := range []Format{JSON, Protobuf} {
		a, err := Partial(its[0], "v1", f)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := Partial(its[0], "v1", f); err != nil || &a[0] != &b[0] {
			t.Errorf("%s is encoded twice (%v)", f, err)
		}
	}
}
