"""The rules of the schedulers once more, slow and plain: lists of objects, every step of one second."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from analysis.serving.limits import Limits
from analysis.serving.requests import Requests


@dataclass
class Job:
    name: int
    arrived: float
    prompt: int
    left: int
    done: int = 0
    blocks: int = 0
    finished: float = -1.0
    first_token: float = -1.0

    @property
    def decoding(self) -> bool:
        return self.done > self.prompt

    def restart(self) -> None:
        """Everything known so far becomes the prompt; a prompt cut short stays what it was."""
        known = max(self.prompt, self.done)
        self.left -= known - self.prompt
        self.prompt, self.done, self.blocks = known, 0, 0


@dataclass
class Server:
    scheduler: str
    limits: Limits
    waiting: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    preemptions: int = 0
    decodes: int = 0

    def capacity(self) -> int:
        """Blocks; tokens where a block holds one."""
        return self.limits.kv_blocks * (self.limits.block_size if self.scheduler == "lightllm" else 1)

    def free(self) -> int:
        return self.capacity() - sum(job.blocks for job in self.everyone)

    everyone: list[Job] = field(default_factory=list)

    def push_out(self, job: Job) -> None:
        job.restart()
        self.preemptions += 1
        self.waiting.insert(0, job)

    def blocks(self, tokens: int) -> int:
        return ceil(tokens / self.limits.block_size)

    def holding(self) -> int:
        return sum(job.blocks > 0 for job in self.everyone)

    def decode(self, job: Job, candidates: list[Job]) -> bool:
        """Make sure that a block is free, at the cost of the last candidates or of the request itself; take it if needed."""
        while self.free() < 1:
            if not candidates:
                self.push_out(job)
                return False
            self.push_out(candidates.pop())
        if job.blocks * self.limits.block_size < job.done:
            job.blocks += 1
        return True

    def may_enter(self, job: Job) -> bool:
        watermark = int(self.limits.watermark * self.limits.kv_blocks)
        return self.free() - self.blocks(job.prompt) >= watermark and self.holding() < self.limits.max_batch

    def vllm(self) -> list[tuple[Job, int]]:
        batch: list[tuple[Job, int]] = []
        while self.waiting and self.may_enter(self.waiting[0]):
            longest = max([self.waiting[0].prompt] + [tokens for _, tokens in batch])
            if longest * (len(batch) + 1) > self.limits.max_batch_tokens and (
                batch or self.waiting[0].prompt <= self.limits.max_batch_tokens
            ):
                break
            job = self.waiting.pop(0)
            job.blocks = self.blocks(job.prompt)
            batch.append((job, job.prompt))
        if batch:
            return batch
        self.running.sort(key=lambda job: job.arrived)
        while self.running:
            job = self.running.pop(0)
            if self.decode(job, self.running):
                batch.append((job, 1))
        return batch

    def sarathi(self) -> list[tuple[Job, int]]:
        batch: list[tuple[Job, int]] = []
        begun: list[Job] = []
        while self.running:
            job = self.running.pop(0)
            if not job.decoding:
                begun.append(job)
            elif self.decode(job, self.running):
                batch.append((job, 1))
        room = self.limits.chunk - len(batch)
        for job in begun:
            piece = min(job.prompt - job.done, room)
            if piece > 0:
                batch.append((job, piece))
                room -= piece
            else:
                self.running.append(job)
        self.running.sort(key=lambda job: job.arrived)
        while self.waiting and room > 0 and self.may_enter(self.waiting[0]):
            job = self.waiting.pop(0)
            job.blocks = self.blocks(job.prompt)
            batch.append((job, min(job.prompt, room)))
            room -= batch[-1][1]
        return batch

    def vllm_v1(self) -> list[tuple[Job, int]]:
        batch: list[tuple[Job, int]] = []
        budget, preempted, line = self.limits.max_batch_tokens, self.preemptions, list(self.running)
        while line and budget > 0:
            job = line.pop(0)
            piece = 1 if job.decoding else min(job.prompt - job.done, budget)
            wanted = self.blocks(job.done if job.decoding else job.done + piece)
            while self.free() < wanted - job.blocks and line:
                self.push_out(line.pop())
            if self.free() < wanted - job.blocks:
                self.push_out(job)
                break
            job.blocks = wanted
            batch.append((job, piece))
            budget -= piece
        self.running = line
        while self.waiting and budget > 0 and preempted == self.preemptions and self.holding() < self.limits.max_batch:
            job = self.waiting[0]
            piece = min(job.prompt, budget)
            if self.blocks(piece) > self.free():
                break
            self.waiting.pop(0)
            job.blocks = self.blocks(piece)
            batch.append((job, piece))
            budget -= piece
        return batch

    def reserve(self) -> list[tuple[Job, int]]:
        """Prompts, whole, each with the cache of the longest request, while batch and cache allow."""
        batch: list[tuple[Job, int]] = []
        blocks = self.blocks(self.limits.max_request_tokens)
        while self.waiting and len(self.running) + len(batch) < self.limits.max_batch and self.free() >= blocks:
            job = self.waiting.pop(0)
            job.blocks = blocks
            batch.append((job, job.prompt))
        return batch

    def orca(self) -> list[tuple[Job, int]]:
        batch = [(job, 1) for job in self.running] + self.reserve()
        self.running = []
        return batch

    def faster_transformer(self) -> list[tuple[Job, int]]:
        if not self.running:
            return self.reserve()
        batch = [(job, 1) for job in self.running]
        self.running = []
        return batch

    def lightllm(self) -> list[tuple[Job, int]]:
        batch: list[tuple[Job, int]] = []
        if not self.running or self.decodes >= self.limits.max_waiting_batches:
            self.decodes = 0
            ahead = [(max(0, job.prompt + job.left - job.done - 1), job.done) for job in self.running]
            while self.waiting and self.holding() < self.limits.max_batch:
                job = self.waiting[0]
                if sum(tokens for _, tokens in batch) + job.prompt > self.limits.max_batch_tokens:
                    break
                ahead = sorted([*ahead, (max(0, job.left - 2), job.prompt + 1)], reverse=True)
                held = [sum(tokens for _, tokens in ahead[: k + 1]) for k in range(len(ahead))]
                if max(left * (k + 1) + held[k] for k, (left, _) in enumerate(ahead)) >= self.capacity():
                    break
                self.waiting.pop(0)
                job.blocks = job.prompt
                batch.append((job, job.prompt))
        if not batch and self.running:
            self.decodes += 1
            batch = [(job, 1) for job in self.running]
            self.running = []
            for job, _ in batch:
                job.blocks += 1
        return batch


def reference(requests: Requests, scheduler: str, limits: Limits) -> tuple[list[tuple[float, list[int], list[int]]], list[Job], int]:
    """Batches as (start, members, tokens), the requests, and the number of preemptions; every batch takes one second."""
    jobs = [
        Job(i, float(a), int(p), int(d))
        for i, (a, p, d) in enumerate(zip(requests.arrived_at_s, requests.prefill_tokens, requests.decode_tokens, strict=True))
    ]
    coming = sorted(jobs, key=lambda job: job.arrived)
    server = Server(scheduler, limits, everyone=jobs)
    batches, batch, end, now = [], [], float("inf"), 0.0
    while coming or batch:
        now = min(end, coming[0].arrived if coming else float("inf"))
        while coming and coming[0].arrived == now:
            server.waiting.append(coming.pop(0))
        if batch and end > now:
            continue
        again = []
        for job, tokens in batch:
            job.done += tokens
            if job.done == job.prompt:
                job.done += 1
                job.first_token = now if job.first_token < 0 else job.first_token
            if job.done == job.prompt + job.left:
                job.blocks, job.finished = 0 if scheduler != "faster_transformer" else job.blocks, now
            else:
                again.append(job)
        if scheduler == "faster_transformer" and not again:
            for job in jobs:
                job.blocks = 0
        server.running = again + server.running if scheduler == "vllm_v1" else server.running + again
        batch = getattr(server, scheduler)()
        end = now + 1.0 if batch else float("inf")
        if batch:
            batches.append((now, [job.name for job, _ in batch], [tokens for _, tokens in batch]))
    return batches, jobs, server.preemptions
