-- Freezes: nothing is written or removed until it is resumed.
obj.spec.suspend = true
return obj
