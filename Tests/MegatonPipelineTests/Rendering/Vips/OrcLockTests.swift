import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

/// Orc frees compiled code without a lock, so libvips calls it through functions of this program that have one.
struct OrcLockTests {
    @Test(arguments: ["orc_program_compile", "orc_program_free"]) func libvipsCallsTheLockedFunction(
        _ name: String
    ) throws {
        // A libvips without Orc does not load it.
        guard let orc = dlopen("liborc-0.4.so.0", RTLD_LAZY | RTLD_NOLOAD) else { return }
        defer { dlclose(orc) }
        let unlocked = try #require(dlsym(orc, name))
        #expect(dlsym(nil, name) != unlocked)
    }

    /// Fault: libvips alone crashed within 12,000 reductions on 8 threads.
    @Test(.timeLimit(.minutes(2))) func manyImagesAreReducedAtOnce() async throws {
        let data = try DamageTests.noise(48, 48, .png)
        await withTaskGroup(of: Bool.self) { group in
            for round in 0..<600 {
                group.addTask {
                    let image = try? DamageTests.render(data, Rendition(width: 8 + round % 16), .vips)
                    return image != nil
                }
            }
            for await isRendered in group { #expect(isRendered) }
        }
    }
}
