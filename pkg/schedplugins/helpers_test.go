package schedplugins

import "github.com/minikctl/minikctl/pkg/objects"

type objectOf = objects.Object

func keyOf(name string) objects.Key { return objects.Key{Namespace: "default", Name: name} }
