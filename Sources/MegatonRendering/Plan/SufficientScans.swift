package import Foundation
import Synchronization

/// Decides while a source arrives whether its first bytes are enough for some renditions: of a progressive JPEG that is
/// shrunk they are, after its first scans.
///
/// The rendering of these bytes is that of the whole file, because planes read the same scans of both.
package final class SufficientScans: Sendable {
    /// How much of a source is needed.
    package enum Need: Sendable {
        case all
        case more
        /// The bytes so far are enough.
        case nothing
    }

    private enum State {
        /// The header has not arrived.
        case open
        case all
        /// The scans that the passes need.
        case scans([JPEGScanNeeds])
    }

    private let renditions: [Rendition]
    private let engine: any RenderEngine
    private let limits: RenderLimits
    private let state = Mutex(State.open)

    package init(for renditions: [Rendition], _ engine: any RenderEngine, _ limits: RenderLimits) {
        self.renditions = renditions
        self.engine = engine
        self.limits = limits
    }

    /// - Parameter bytes: the source from its first byte on. They are not kept.
    package func need(of bytes: UnsafeRawBufferPointer) -> Need {
        state.withLock { state in
            if case .open = state { state = decide(bytes) }
            switch state {
            case .open: return .more
            case .all: return .all
            case .scans(let needs): return needs.allSatisfy { JPEGScanPrefix(bytes, for: $0) != nil } ? .nothing : .more
            }
        }
    }

    /// Whether these bytes are enough.
    package func areIn(_ data: Data) -> Bool { data.withUnsafeBytes { need(of: $0) == .nothing } }

    private func decide(_ bytes: UnsafeRawBufferPointer) -> State {
        guard bytes.count >= 3 else { return .open }
        guard bytes[0] == 0xFF, bytes[1] == 0xD8, bytes[2] == 0xFF else { return .all }
        let first = JPEGMarkers(bytes).first { $0.marker == JPEGMarkers.startOfScan }
        guard let first, first.end <= bytes.count else { return .open }
        let header = Data(bytes.prefix(first.end))
        // libvips, which reads other headers, must not keep the loader's thread.
        guard let parsed = JPEGHeader(header), parsed.isProgressive, parsed.probe.planes != nil else { return .all }
        do {
            let plan = try RenderPlan(probing: header, .jpeg, renditions, engine, limits)
            let needs = plan.passes.map { pass in
                // Missing parts of a damaged image are rendered as far as all of it goes.
                pass.failOn == .nothing ? nil : plan.scanNeeds(pass)
            }
            return needs.contains { $0 == nil } ? .all : .scans(needs.compactMap { $0 })
        } catch {
            // The render of the whole source reports it.
            return .all
        }
    }
}
