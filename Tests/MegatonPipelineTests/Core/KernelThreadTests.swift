import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore

/// Threads that report whether they were created.
@Suite(.timeLimit(.minutes(1))) struct KernelThreadTests {
    @Test func aThreadRunsUnderItsName() async {
        let name = await withCheckedContinuation { (name: CheckedContinuation<String?, Never>) in
            KernelThread.start("megaton-a-long-name", stackSize: 1 << 20) {
                name.resume(returning: try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8))
            }
        }
        #expect(name == "megaton-a-long-\n", "the kernel takes 15 bytes")
    }

    /// Fault: the work of a thread that could not be created waited for ever.
    @Test func aThreadThatCannotBeCreatedIsReported() {
        // More than the address space.
        let code = KernelThread.create("huge", stackSize: 1 << 60) { Issue.record("it runs") }
        #expect([EAGAIN, ENOMEM].contains(code), "\(code)")
    }

    @Test func aProcessWithoutItsThreadEnds() async throws {
        let ending = try await #require(
            processExitsWith: .exitCode(71),
            observing: [\.standardErrorContent]
        ) {
            KernelThread.start("huge", stackSize: 1 << 60) {}
        }
        let errors = String(decoding: ending.standardErrorContent, as: UTF8.self)
        #expect(errors.contains("the thread huge cannot be started") && errors.contains("ulimit -u"), "\(errors)")
    }
}
