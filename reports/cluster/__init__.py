"""Predicts how long the patterns of tzmark bench cluster take with more ranks, hosts and servers than were measured."""
