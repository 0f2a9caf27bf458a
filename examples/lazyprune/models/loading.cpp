// SPDX-License-Identifier: MIT
#include "models/loading_definition.hpp"
#include "traces/faulty_reference.hpp"

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>

namespace lazyprune {
namespace program {

template model<cpu> load_weights(cpu&, const weights_source&, const load_options&);
template model<reference<float>> load_weights(reference<float>&, const weights_source&, const load_options&);
template model<reference<double>> load_weights(reference<double>&, const weights_source&, const load_options&);
template model<faulty_reference> load_weights(faulty_reference&, const weights_source&, const load_options&);

}  // namespace program
}  // namespace lazyprune
