package schedplugins

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

type objectOf = objects.Object

func keyOf(name string) objects.Key { return objects.Key{Namespace: "default", Name: name} }

var getOptions metav1.GetOptions
