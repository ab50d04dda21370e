internal import CCodecs
internal import CVips
internal import Foundation
public import Logging
import Synchronization

/// libvips, started once per process and never stopped.
public enum VipsRuntime {
    /// The oldest libvips that can block untrusted loaders (older ones: CVE-2026-66066).
    private static let oldest = (8, 13)

    private static let started: Result<Void, ImageError> = {
        let found = (Int(vips_version(0)), Int(vips_version(1)))
        guard found >= oldest else {
            return .failure(
                ImageError(
                    .renderFailed,
                    "libvips \(version) cannot block untrusted loaders; 8.13 or later is needed. Update the system."
                )
            )
        }
        megaton_messages_start()
        guard megaton_vips_start("megaton") == 0 else {
            return .failure(ImageError(.renderFailed, "libvips did not start: \(takeErrorText())"))
        }
        isRunning.store(true, ordering: .releasing)
        return .success(())
    }()

    /// Set after the start. Reading `started` instead would start libvips.
    private static let isRunning = Atomic(false)

    /// Version of the loaded library, e.g. `8.14.1`.
    package static var version: String { "\(vips_version(0)).\(vips_version(1)).\(vips_version(2))" }

    /// Starts libvips unless it is running.
    ///
    /// - Throws: `.renderFailed` if the library is too old.
    public static func start() throws(ImageError) { try started.get() }

    /// The libvips classes of each format that is disabled by default.
    private static let switches: [AssetType: [String]] = [
        .tiff: ["VipsForeignLoadTiff"], .svg: ["VipsForeignLoadSvg"],
        .jxl: ["VipsForeignLoadJxl", "VipsForeignSaveJxl"],
    ]

    private static let open = Mutex(AssetType.supported)

    /// Formats that this process can decode; the `types` of each pipeline select from these.
    public static var allowed: Set<AssetType> { open.withLock { $0 } }

    /// Enables TIFF, SVG or JPEG XL (also for writing) for the whole process, irrevocably: libvips has one block list
    /// for all its users. A pipeline decodes a format only if its `types` include it as well.
    ///
    /// The codecs of these formats have a larger attack surface than those that are enabled by default.
    ///
    /// - Parameter logger: Logs a warning for each enabled format.
    /// - Throws: `.unsupportedFormat` for other formats, or if this build of libvips has no codec for the format;
    ///   `.renderFailed` if libvips is too old.
    public static func allow(_ types: Set<AssetType>, logger: Logger? = nil) throws(ImageError) {
        try start()
        for type in types.subtracting(allowed).sorted(by: { $0.description < $1.description }) {
            guard let operations = switches[type] else {
                let known = switches.keys.map(\.description).sorted().joined(separator: ", ")
                throw ImageError(.unsupportedFormat, "\(type) cannot be enabled; only \(known) can.")
            }
            guard operations.allSatisfy({ g_type_from_name($0) != 0 }) else {
                throw ImageError(.unsupportedFormat, "libvips \(version) was built without \(type).")
            }
            for operation in operations { megaton_vips_allow(operation) }
            open.withLock { _ = $0.insert(type) }
            logger?.warning(
                "a format whose codec has a larger attack surface is enabled in this process",
                metadata: ["format": "\(type)"]
            )
        }
    }

    /// Frees the library's data for the current thread. Must be the last call on each thread that may have used
    /// libvips. Does nothing if libvips was never started: the library would crash.
    package static func endThread() {
        if isRunning.load(ordering: .acquiring) { vips_thread_shutdown() }
    }

    /// The last message of libvips, for use if no messages are collected (`VipsMessages`). All threads share the
    /// buffer, so the text may belong to another call: use it only as a hint in a message, never for a decision.
    static func takeErrorText() -> String {
        guard let buffer = vips_error_buffer_copy() else { return "no details" }
        defer { g_free(buffer) }
        let lines = String(cString: buffer).split(separator: "\n").suffix(2)
        return lines.isEmpty ? "no details" : lines.joined(separator: "; ")
    }
}
