internal import Foundation
package import MegatonCore

/// Metrics of the process itself, by the names that the client libraries of Prometheus use.
///
/// Source: https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
package struct ProcessMetrics: Sendable {
    package static let information = MetricDescription(
        "megaton_build_info",
        .gauge,
        "Version and role of the process; the value is 1",
        labels: ["version", "role"]
    )
    static let cpu = MetricDescription(
        "process_cpu_seconds_total",
        .counter,
        "User and system time that the process has used, seconds"
    )
    static let memory = MetricDescription(
        "process_resident_memory_bytes",
        .gauge,
        "Resident memory of the process, bytes"
    )
    static let start = MetricDescription(
        "process_start_time_seconds",
        .gauge,
        "Time at which the process started, seconds since 1970"
    )
    static let descriptors = MetricDescription("process_open_fds", .gauge, "Open file descriptors")
    static let descriptorLimit = MetricDescription("process_max_fds", .gauge, "Limit on open file descriptors")
    static let threads = MetricDescription("process_threads", .gauge, "Threads of the process")

    package static let descriptions = [information, cpu, memory, start, descriptors, descriptorLimit, threads]

    private let version: String
    private let role: String

    package init(version: String, role: String) {
        self.version = version
        self.role = role
    }

    /// The values now. Those that this system does not show in `/proc` are left out.
    package func families() -> [MetricFamily] {
        let labels = [(name: "version", value: version), (name: "role", value: role)]
        var families = [MetricFamily(Self.information, [.init(1, labels: labels)])]
        var usage = rusage()
        if getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 {
            families.append(MetricFamily(Self.cpu, Self.seconds(usage.ru_utime) + Self.seconds(usage.ru_stime)))
        }
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            families.append(MetricFamily(Self.descriptorLimit, Double(limit.rlim_cur)))
        }
        if let open = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count {
            families.append(MetricFamily(Self.descriptors, Double(open)))
        }
        return families + Self.status()
    }

    /// Memory, threads and start, from `/proc/self/stat`; proc(5) numbers the fields.
    private static func status() -> [MetricFamily] {
        // The name of the program, field 2, may have spaces and parentheses.
        guard let text = try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8),
            let name = text.lastIndex(of: ")")
        else { return [] }
        let fields = text[text.index(after: name)...].split(separator: " ")
        guard fields.count > 21, let threads = Double(fields[17]), let ticks = Double(fields[19]),
            let pages = Double(fields[21])
        else { return [] }
        var families = [
            MetricFamily(Self.threads, threads), MetricFamily(memory, pages * Double(sysconf(Int32(_SC_PAGESIZE)))),
        ]
        if let boot = bootTime {
            families.append(MetricFamily(start, boot + ticks / Double(sysconf(Int32(_SC_CLK_TCK)))))
        }
        return families
    }

    /// Seconds since 1970 at which the machine started. `/proc/stat` has it too, but the units of systemd hide that
    /// file. Computed once: a value that differs between two scrapes would look like a restart.
    private static let bootTime: Double? = {
        var uptime = timespec()
        guard clock_gettime(CLOCK_BOOTTIME, &uptime) == 0 else { return nil }
        return Date().timeIntervalSince1970 - Double(uptime.tv_sec) - Double(uptime.tv_nsec) / 1e9
    }()

    private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
}
