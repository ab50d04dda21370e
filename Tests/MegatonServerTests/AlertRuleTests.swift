import Foundation
import MegatonCore
import MegatonTestSupport
import Testing

@testable import MegatonServer

/// The alerts for Prometheus in `deploy`.
@Suite(.timeLimit(.minutes(1))) struct AlertRuleTests {
    private static let rules = "deploy/prometheus/megaton.rules.yml"
    private static let tests = "deploy/prometheus/megaton.rules.test.yml"

    @Test(arguments: [["check", "rules", rules], ["test", "rules", tests]])
    func prometheusAcceptsTheRulesAndTheirTests(_ arguments: [String]) async throws {
        let promtool = try ProgramUnderTest(
            program: "/usr/bin/promtool",
            arguments: arguments,
            directory: Repository.root
        )
        let ending = await promtool.ending()
        #expect(ending.code == 0, "\(ending.output)\(ending.errors)")
    }

    /// A rule about a metric that there is not never fires.
    @Test func theRulesUseMetricsThatThereAre() throws {
        let text = try Repository.text(Self.rules)
        let expressions = text.components(separatedBy: "- alert: ").dropFirst()
            .map { $0.components(separatedBy: "labels:")[0] }
        let names = Set(expressions.flatMap { $0.matches(of: /megaton_[a-z_]+/).map { String($0.output) } })
        #expect(names.count >= 8)
        let known = Set(MetricCatalog.all.map(\.name))
        #expect(names.subtracting(known).isEmpty)
    }

    /// Each alert is tried: once while it fires, and once after its end.
    @Test func eachAlertIsTried() throws {
        let alerts = try Repository.text(Self.rules).matches(of: /- alert: (\w+)/).map { String($0.output.1) }
        let tests = try Repository.text(Self.tests)
        #expect(alerts.count >= 8 && Set(alerts).count == alerts.count)
        for alert in alerts {
            let cases = tests.components(separatedBy: "alertname: \(alert)\n").dropFirst()
                .map { $0.components(separatedBy: "- eval_time:")[0] }
            #expect(cases.contains { $0.contains("exp_labels:") }, "\(alert) never fires")
            #expect(cases.last?.contains("exp_alerts: []") == true, "\(alert) does not end")
        }
    }
}
