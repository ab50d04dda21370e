import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonHTTP

/// Faults of this process while it connects, for which the host is not to blame.
@Suite(.timeLimit(.minutes(1))) struct LocalFaultTests {
    /// Fault: a worker without free descriptors opened the circuit of a healthy host for the whole cluster.
    @Test func aMissingDescriptorIsNoFailureOfTheHost() async {
        // A process of its own: the limit is that of all threads.
        await #expect(processExitsWith: .success) {
            let loader = DataLoader.local()
            let url = try #require(URL(string: "http://127.0.0.1:1/a"))
            let before = await LoadProbe.load(url, with: loader)
            #expect(before.failure?.code == .unreachable)
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            limit.rlim_cur = 3
            try #require(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
            for text in ["http://127.0.0.1:1/a", "http://megaton.invalid/a"] {
                let probe = await LoadProbe.load(try #require(URL(string: text)), with: loader)
                #expect(probe.failure?.code == .throttled && probe.failure?.retryAfter == 1, "\(text)")
                #expect(probe.failure?.message.contains("limit of open files") == true)
            }
        }
    }
}
