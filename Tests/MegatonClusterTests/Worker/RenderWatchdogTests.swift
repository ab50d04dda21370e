import Logging
import Synchronization
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(1))) struct RenderWatchdogTests {
    /// A handler that cannot end the process at once is not called again.
    @Test func aHungRenderIsReportedOnce() async {
        let checks = Mutex(0)
        let calls = Mutex(0)
        let watchdog = RenderWatchdog(
            longestRender: {
                let count = checks.withLock { checks in
                    checks += 1
                    return checks
                }
                return count < 3 ? .seconds(3) : .seconds(4)
            },
            timeLimit: .seconds(1),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            onHungRender: { calls.withLock { $0 += 1 } },
            interval: .milliseconds(1)
        )
        await watchdog.run()
        #expect(checks.withLock { $0 } == 3 && calls.withLock { $0 } == 1)
    }
}
