"""Wall time, memory and runs of long histories, beside git bisect run."""
