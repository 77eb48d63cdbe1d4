-- Goes on. The field is taken away rather than set to false, which is what a manifest without it says.
obj.spec.suspend = nil
return obj
