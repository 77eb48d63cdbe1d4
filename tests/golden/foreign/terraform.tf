terraform {
  required_providers {
    kafka = { source = "Mongey/kafka", version = "~> 0.9" }
  }
}

variable "burst" {
  type    = number
  default = 4096 # bytes
}

locals {
  banner = <<-EOT
    resource "kafka_quota" "not_this" { entity_type = "user" }
  EOT
  rates  = { for name, rate in { "a" = 1 } : name => "${rate * 2}" }
}

resource "kafka_topic" "orders" {
  name       = "orders"
  partitions = max(3, length([1, 2, 3]))
}

resource "kafka_quota" "billing" {
  entity_name = "billing"
  entity_type = "user"
  config = {
    "producer_byte_rate" = "1048576" // one mebibyte
    consumer_byte_rate   = 2097152
    request_percentage : 12.5,
  }
  lifecycle {
    prevent_destroy = true
  }
}

resource "kafka_quota" "default_client" {
  entity_type = "client-id"
  config      = { "consumer_byte_rate" = 8192, "producer_byte_rate" = var.burst }
}

resource "kafka_quota" "gateway" {
  entity_name = "10.0.0.7"
  entity_type = "ip"
  config      = { "connection_creation_rate" = "20" }
}

/* both of these are made by Terraform itself */
resource "kafka_quota" "teams" {
  for_each    = toset(["a", "b"])
  entity_name = "team-${each.key}"
  entity_type = "user"
  config      = { "producer_byte_rate" = 1024 }
}

resource "kafka_quota" "literal" {
  entity_name = "<default>$${x}\u00e9"
  entity_type = "user"
  config      = { "producer_byte_rate" = 1024 }
}
